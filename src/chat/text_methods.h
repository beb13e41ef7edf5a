/* text_methods - what str methods and the filters of the same names share. Marks go where their bytes go. */
#pragma once
#include "chat/value.h"

const Str *text_case(Jinja *j, const Str *s, char how); /* 'u' upper, 'l' lower, 's' swap, 't' title, 'f' fold */
const Str *text_capitalize(Jinja *j, const Str *s);
const Str *text_pad(Jinja *j, const Str *s, int64_t width, const Str *fill,
                    char side); /* 'c' both, 'l' text left, 'r' right */
const Str *text_strip(Jinja *j, const Str *s, const Str *chars, bool left, bool right); /* chars NULL: white space */
const Str *text_replace(Jinja *j, const Str *s, const Str *old, const Str *to, int64_t count);
List *text_lines(Jinja *j, const Str *s, bool keep_ends);
