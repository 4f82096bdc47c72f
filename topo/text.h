/* Text of files, made fit to be shown. */
#ifndef WEFT_TOPO_TEXT_H
#define WEFT_TOPO_TEXT_H

/* What is no printable UTF-8 becomes '?', byte by byte: outputs are valid, and no file steers a terminal. */
void weft_text_clean(char *text);

#endif
