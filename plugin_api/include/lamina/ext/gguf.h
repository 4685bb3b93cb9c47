/* Weights of a family in GGUF files. The host reads them under the names that the tensor map has
 * from Hugging Face, and their metadata as keys of config.json. What else differs there, only the
 * family knows; so the host opens such a file for those alone that have the key LAMINA_GGUF_KEY, as
 * a name, an alias or one to ignore. */
#ifndef LAMINA_EXT_GGUF_H
#define LAMINA_EXT_GGUF_H

/* True where a config comes from a GGUF file. An alias of a key that GGUF files do not have and
 * that is true for them, eg: of one that says that rotary positions turn neighbouring dims, as
 * converters order the rows of some families. A family ignores it where nothing differs. Keys whose
 * names begin with "gguf_" are not exported. */
#define LAMINA_GGUF_KEY "gguf_weights"

/* Keys of a file have their names in config.json, where these are the same for all architectures.
 * One that means something else is a name, an alias or ignored under its own: "gemma3.block_count".
 * A key that the family neither reads nor ignores is an error where it may have an effect.
 *
 * The files are those of the family that has their `general.architecture` among its
 * hf_model_types, whatever the marks in it (gpt-oss is gpt_oss). Where one architecture covers
 * several families, a type "<architecture>.<key>" claims the files that have this metadata key with
 * a value other than 0, eg: "llama.expert_count".
 * A row of the tensor map may have the name of a tensor in GGUF files, eg:
 * "blk.{L}.ffn_norm.weight", with what it takes to make our parameter of it. For GGUF files such
 * rows go before the others. */

#endif /* LAMINA_EXT_GGUF_H */
