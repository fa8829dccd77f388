#ifndef RELAY_SAY_H
#define RELAY_SAY_H

/* The relay's own lines on stderr: few, and never worth dying or waiting for. */
void say_as_node(unsigned node_id);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
