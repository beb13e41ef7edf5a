/* jinja - the shape of a chat template's Jinja text: the same for every way of writing down the same template, so
 * that it can be compared with known ones. Nothing is interpreted. */
#pragma once
#include "base/error.h"

/* jinja_shape - *shape is malloc'ed. In it
 *   - white space stands only where a string or the text between tags has it, and between two words;
 *   - text between tags is an output, {{'text'}}, less the white space that transformers' settings (trim_blocks,
 *     lstrip_blocks) and "-" drop, and outputs that follow each other are one: {{a}}text{{b}} is {{a+'text'+b}};
 *   - a string is in single quotes, its escapes resolved (\' and \\ stay), and 'a'+'b' is 'ab';
 *   - x['name'] is x.name; comments are gone.
 * Fails only for want of memory. Source: Jinja2's lexer.py. Test: tests/test_chat.c */
int jinja_shape(char **shape, const char *jinja, Error *e);
