// The files of one checkpoint, safetensors (one or many) or GGUF, as one lookup from name to
// tensor; and the writing of safetensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/gguf_weights.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace lamina::io {

// How tensors of a checkpoint are compressed, by quantization_config of the config.json beside
// them.
struct Compression {
  std::string method;                                  // "fp8", "mxfp4"; empty = not said
  std::int64_t block_rows = 128, block_columns = 128;  // of fp8: what shares one scale
};

// Accepts a directory (model.safetensors, else model.safetensors.index.json with its shards), an
// index file, one safetensors file, or what gguf_in() finds: its tensors have the names that
// gguf_weights() gives them. The index decides which shard has a tensor. Errors (class
// checkpoint): nothing of that kind there, with what is there instead; a shard that is missing or
// outside the directory; a compression that lamina does not read. A tensor that the index names and
// its shard lacks is an error only where it is asked for.
//   WeightFiles weights("Llama-3.2-1B");
//   TensorView w = weights.tensor("model.embed_tokens.weight");
class WeightFiles {
 public:
  // `stem` names the set within a directory, eg: "model", "optimizer".
  explicit WeightFiles(const std::string& path, std::string_view stem = "model");

  // Adds the tensors of another safetensors file. Errors: it has one that is here already.
  void add(const std::string& path);
  // From now on StoredWeight gives the rows of queries and keys of a GGUF file in the order of what
  // was published (gguf_names.h), in which halves of the `width` rows of a head belong together.
  void unpair_rows(std::int64_t width) { paired_width_ = width; }
  // The tensors of the set `stem` in a directory, in place of those that have their names here.
  void replace(const std::string& directory, std::string_view stem);

  const std::string& path() const { return path_; }
  // All names: by file, then in the order of the data.
  const std::vector<std::string_view>& names() const { return names_; }
  bool contains(std::string_view name) const {
    return by_name_.count(name) > 0 || stored_tensor(name);
  }
  // Errors: no such tensor (the nearest name is suggested); a type that lamina has no use for.
  TensorView tensor(std::string_view name) const;
  // How the values of a tensor are stored in blocks, of which tensor() gives the bytes; null where
  // they are not, and for no tensor.
  const formats::BlockFormat* block_format(std::string_view name) const;
  // The model in GGUF, or null. Its tensors can be had under their own names too, whole ones.
  const GgufModel* gguf() const { return gguf_.get(); }
  // Rows of a head of a tensor whose rows are read in another order than they have; else 0.
  std::int64_t paired_rows(std::string_view name) const;
  // The name of a tensor in its file; another than `name` in GGUF files alone.
  std::string_view stored_name(std::string_view name) const;
  // The shard that should have a tensor by the index and lacks it; empty for all other tensors.
  std::string_view shard_without(std::string_view name) const;
  // The file that holds a tensor, or the whole set's path where none has that name.
  const std::string& path_of(std::string_view name) const;
  std::uint64_t file_bytes() const;
  const Compression& compression() const { return compression_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  // Adds only tensors for which `is_wanted` returns true; all of them without it.
  void add_file(const std::string& path, bool replace = false,
                const std::function<bool(std::string_view)>& is_wanted = {});
  void add_index(const std::string& index_path);
  void add_gguf(const std::string& path);
  // Of a GGUF file, by its published name; null where there is none.
  const GgufWeight* gguf_weight(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second.gguf;
  }
  // Of a GGUF file, by its own name; null where there is none.
  const GgufTensor* stored_tensor(std::string_view name) const {
    return gguf_ ? gguf_->find_tensor(name) : nullptr;
  }

  std::string path_;
  Compression compression_;
  std::vector<SafetensorsFile> files_;
  std::unique_ptr<GgufModel> gguf_;
  std::vector<GgufWeight> gguf_weights_;
  std::vector<std::string_view> names_;
  std::map<std::string, std::string, std::less<>> shards_without_;  // by tensor
  struct Place {
    const GgufWeight* gguf = nullptr;
    std::size_t file = 0;  // of files_, else
  };
  std::unordered_map<std::string_view, Place> by_name_;
  std::int64_t paired_width_ = 0;
};

struct WeightFilesOptions {
  std::string stem = "model";
  std::uint64_t max_shard_bytes = 5'000'000'000;  // of data; one larger tensor has its own shard
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  // The file of each tensor, by name; a tensor that is not there goes to the last of them. Empty:
  // by size.
  std::map<std::string, std::string, std::less<>> file_of = {};
};

// Writes `directory`/<stem>.safetensors, or as many shards as needed and their index. Shards are
// filled in the order of `specs`. Returns the checksums of all files written.
std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorStream& stream,
                                           const WeightFilesOptions& options = {});
std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorSource& source,
                                           const WeightFilesOptions& options = {});

}  // namespace lamina::io
