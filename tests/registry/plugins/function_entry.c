/* A library whose entry symbol is a function instead of data. */
__attribute__((visibility("default"))) int lamina_plugin_v0(void) { return 0; }
