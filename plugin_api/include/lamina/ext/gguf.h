/* Weights of a family in GGUF files. The host reads them under the names that the tensor map has
 * from Hugging Face, and their metadata as keys of config.json. What else differs there, only the
 * family knows; so the host opens such a file for those alone that have the key LAMINA_GGUF_KEY, as
 * a name, an alias or one to ignore. */
#ifndef LAMINA_EXT_GGUF_H
#define LAMINA_EXT_GGUF_H

/* True where a config comes from a GGUF file. An alias of a key that GGUF files do not have and
 * that is true for them, eg: of one that says that rotary positions turn neighbouring dims, as
 * converters order the rows of some families. A family ignores it where nothing differs. */
#define LAMINA_GGUF_KEY "gguf_weights"

#endif /* LAMINA_EXT_GGUF_H */
