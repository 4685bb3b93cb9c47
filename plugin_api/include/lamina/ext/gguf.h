/* Weights of a family in GGUF files. The host reads tensors under the Hugging Face names of the
 * tensor map, and metadata as keys of config.json. A family states that it handles the remaining
 * differences by declaring the key LAMINA_GGUF_KEY, as a name, an alias or an ignored key; the host
 * refuses GGUF files of other families. */
#ifndef LAMINA_EXT_GGUF_H
#define LAMINA_EXT_GGUF_H

/* True if a config comes from a GGUF file. Make it an alias of a key that GGUF files do not have
 * and that is true for them, eg: a key for rotary positions that rotate neighbouring dims, because
 * converters reorder the rows of some families. A family without differences ignores it. Keys whose
 * names begin with "gguf_" are not exported. */
#define LAMINA_GGUF_KEY "gguf_weights"

/* Keys of a file have their config.json names if these are the same for all architectures. A key
 * with another meaning in one architecture must be a name, an alias or an ignored key under its
 * full name, eg: "gemma3.block_count". A key that the family neither reads nor ignores is an error
 * if it could have an effect. attention.sliding_window, logit_scale and shortconv.l_cache are
 * required of a file if the family names them in full.
 *
 * A file belongs to the family that has its `general.architecture` among its hf_model_types,
 * ignoring punctuation (gpt-oss is gpt_oss). If one architecture covers several families, the type
 * "<architecture>.<key>" claims the files in which this metadata key has a value other than 0, eg:
 * "llama.expert_count".
 * A row of the tensor map may name a tensor of GGUF files, eg: "blk.{L}.ffn_norm.weight", with the
 * transforms from it to our parameter. For GGUF files such rows have precedence. */

#endif /* LAMINA_EXT_GGUF_H */
