// Maps tensor names to the tensors of one checkpoint, in one or many safetensors files or GGUF; and
// writes safetensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/compression.h"
#include "io/gguf_weights.h"
#include "io/packed_weight.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace lamina::io {

// Returns whether a directory has the set `stem` of tensors: STEM.safetensors, or the index of
// several files.
bool has_weight_set(const std::string& directory, std::string_view stem = "model");

// Returns whether a file of this name is directly in its directory: no path, not empty.
bool is_plain_name(std::string_view name);

// Opens a directory (model.safetensors, else model.safetensors.index.json with its shards), an
// index file, one safetensors file, or the result of gguf_in(), whose tensors get the names of
// gguf_weights(). The index determines the shard of a tensor. Errors (class checkpoint): no such
// files, with the contents of the directory; a shard that is missing or outside the directory; an
// unsupported compression. A tensor that the index lists but its shard lacks is an error only for
// readers that ask for it.
//   WeightFiles weights("Llama-3.2-1B");
//   TensorView w = weights.tensor("model.embed_tokens.weight");
class WeightFiles {
 public:
  // `stem` is the name of the set within a directory, eg: "model", "optimizer".
  explicit WeightFiles(const std::string& path, std::string_view stem = "model");

  // Adds the tensors of another safetensors file. Errors: a tensor that already exists.
  void add(const std::string& path);
  // From now on StoredWeight returns the rows of queries and keys of a GGUF file in published order
  // (gguf_names.h), in which the halves of a head's `width` rows are paired.
  void unpair_rows(std::int64_t width) { paired_width_ = width; }
  // Replaces tensors by the tensors with the same names in the set `stem` of a directory. Errors:
  // also such a tensor that is not in the shard which the index of the set names.
  void replace(const std::string& directory, std::string_view stem);

  const std::string& path() const { return path_; }
  // All names: by file, then in the order of the data. The tensors of a packed weight have one name
  // together, "x.weight".
  const std::vector<std::string_view>& names() const { return names_; }
  // Likewise, and at the end the scales of activations, which names() omits because they do not
  // affect weights.
  std::vector<std::string_view> all_names() const;
  // Errors: as check_absent().
  bool contains(std::string_view name) const;
  // Throws UserError if the index assigns a tensor to a shard that does not contain it. Readers
  // that choose from names() call it before they do without a tensor: it is damage, not an absence.
  // REQUIRES: names() does not have it.
  void check_absent(std::string_view name) const;
  // Throws UserError for a tensor that exists, but not in the shard that the index names. Readers
  // of all tensors call it, because names() omits that one.
  void check_index() const;
  // The name of a packed weight returns its stored numbers. Errors: the tensor is missing (the
  // nearest name is suggested); its type is not supported.
  TensorView tensor(std::string_view name) const;
  // Returns the block format of a tensor, whose bytes tensor() returns; null for plain values and
  // unknown names.
  const formats::BlockFormat* block_format(std::string_view name) const;
  // Returns the tensors of a packed weight; null for other names.
  const PackedTensors* packed(std::string_view name) const {
    const auto found = packed_.find(name);
    return found == packed_.end() ? nullptr : &found->second;
  }
  // Returns the GGUF model, or null. Its tensors are also found under their GGUF names, unsplit.
  const GgufModel* gguf() const { return gguf_.get(); }
  // Returns the rows per head of a tensor whose rows are reordered when read; else 0.
  std::int64_t paired_rows(std::string_view name) const;
  // Returns the name of a tensor in its file; it differs from `name` only in GGUF.
  std::string_view stored_name(std::string_view name) const;
  // Returns the shard that should contain a tensor by the index but does not; empty for all other
  // tensors.
  std::string_view shard_without(std::string_view name) const;
  // Returns the other shard that contains such a tensor; empty if there is none.
  std::string_view shard_with(std::string_view name) const;
  // Returns a note for errors: what the index says about such a tensor, and what to download again;
  // empty for all other tensors.
  std::string shard_note(std::string_view name) const;
  // The names of all such tensors, sorted.
  std::vector<std::string_view> names_without_shard() const;
  // Returns the file that contains a tensor, or the path of the set if there is none.
  const std::string& path_of(std::string_view name) const;
  std::uint64_t file_bytes() const;
  const Compression& compression() const { return compression_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  struct WrongShard {
    std::string named;  // by the index
    std::string right;  // which contains the tensor; "" if there is none
  };

  // Adds only tensors for which `is_wanted` returns true; all of them without it.
  void add_file(const std::string& path, bool replace = false,
                const std::function<bool(std::string_view)>& is_wanted = {});
  void add_index(const std::string& index_path);
  void add_gguf(const std::string& path);
  // Names packed weights instead of their tensors.
  void name_packed();
  // Finds the tensor of `name` that is not in the shard which the index names; for a weight also
  // the stored numbers of its packed form. Returns nothing for all other tensors.
  const std::pair<const std::string, WrongShard>* find_wrong(std::string_view name) const;
  // Finds a tensor of a GGUF file by its published name; null if there is none.
  const GgufWeight* gguf_weight(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second.gguf;
  }
  // Finds a tensor of a GGUF file by its own name; null if there is none.
  const GgufTensor* stored_tensor(std::string_view name) const {
    return gguf_ ? gguf_->find_tensor(name) : nullptr;
  }

  std::string path_;
  Compression compression_;
  std::vector<SafetensorsFile> files_;
  std::unique_ptr<GgufModel> gguf_;
  std::vector<GgufWeight> gguf_weights_;
  std::vector<std::string_view> names_, activation_scales_;
  std::map<std::string, WrongShard, std::less<>> wrong_shards_;  // by tensor
  struct Place {
    const GgufWeight* gguf = nullptr;
    std::size_t file = 0;  // index in files_, else
  };
  std::unordered_map<std::string_view, Place> by_name_;
  std::map<std::string, PackedTensors, std::less<>> packed_;
  std::int64_t paired_width_ = 0;
};

struct WeightFilesOptions {
  std::string stem = "model";
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of data; a larger tensor gets a separate shard
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  // The file of each tensor, by name; tensors that are not listed go to the last file. Empty: by
  // size. REQUIRES: is_plain_name().
  std::map<std::string, std::string, std::less<>> file_of = {};
};

// Returns the key in the metadata of a safetensors file that gives the block format of a tensor, by
// name. Such a tensor is u8, with rows of blocks as its last dim.
std::string blocks_key(std::string_view tensor);

// Writes `directory`/<stem>.safetensors, or as many shards as needed and their index. Shards are
// filled in the order of `specs`. Returns the checksums of all written files.
std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorStream& stream,
                                           const WeightFilesOptions& options = {});
std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorSource& source,
                                           const WeightFilesOptions& options = {});

}  // namespace lamina::io
