/* render_template - renders chat templates for scripts/check_templates.py: on each line of standard input an object
 * {"template": text, "context": {variables}}, on each line of standard output {"text"} or {"error"}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja.h"

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        cJSON *in = cJSON_Parse(line), *out = cJSON_CreateObject();
        const char *source = cJSON_GetStringValue(cJSON_GetObjectItem(in, "template"));
        ChatText text;
        Error e = {""};
        JinjaInput input = {.now = 1727956800, .extra = cJSON_GetObjectItem(in, "context")};
        if (!source) return 1;
        if (jinja_render(&text, source, strlen(source), &input, &e)) cJSON_AddStringToObject(out, "error", e.text);
        else cJSON_AddStringToObject(out, "text", text.text);
        chat_text_close(&text);
        char *printed = cJSON_PrintUnformatted(out);
        puts(printed);
        fflush(stdout);
        free(printed);
        cJSON_Delete(in);
        cJSON_Delete(out);
    }
    free(line);
    return 0;
}
