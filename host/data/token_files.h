// A token store on disk: tokens of documents in files that are mapped, so that runs share them and
// none holds them in memory.
//
//   tokens      ids, 2 bytes each where the vocabulary has at most 65536, else 4; little-endian
//   documents   where each begins, 8 bytes; and the end of the last
//   loss        a byte for each token: whether it is in the loss; only of conversations
//   manifest.json   counts and checksums; written last
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_view.h"
#include "data/tokenize.h"

namespace lamina::data {

struct StoredTokens {
  TokenView view;
  std::vector<TokenSource> sources;
  std::string path;       // of the store's directory; "" of one in memory
  bool was_made = false;  // now, not before
};

// Whether two bytes hold each of its ids.
inline bool has_narrow_ids(const text::Tokenizer& tokenizer) {
  return tokenizer.vocab_size() <= 1 << 16;
}

// Writes a store into a directory, from the beginning or from where an interrupted writer was.
class TokenFilesWriter {
 public:
  struct Shape {
    bool is_narrow = false;  // ids of 2 bytes
    bool has_loss = false;
  };

  // Goes on in `directory` where save() has been called there, else begins again. `sources` are
  // empty; afterwards they are what was saved. Errors, here and below (DeviceError, class
  // checkpoint): the disk is full, the directory cannot be written.
  TokenFilesWriter(std::string directory, Shape shape, std::vector<TokenSource>& sources);
  TokenFilesWriter(const TokenFilesWriter&) = delete;
  TokenFilesWriter& operator=(const TokenFilesWriter&) = delete;
  ~TokenFilesWriter();

  std::uint64_t num_parts() const { return num_parts_; }
  std::uint64_t num_tokens() const { return num_tokens_; }

  void add(const TokenPart& part);
  // What was added so far survives whatever comes.
  void save(const std::vector<TokenSource>& sources);
  // The last call: writes the manifest.
  void finish(const std::vector<TokenSource>& sources);

 private:
  struct File;
  bool restore(std::vector<TokenSource>& sources);
  File& file(std::size_t n);
  void write_narrow(std::span<const std::int32_t> ids);

  std::string directory_;
  Shape shape_;
  std::vector<File> files_;
  std::uint64_t num_parts_ = 0, num_tokens_ = 0, num_documents_ = 0;
};

// Maps a store, of which every byte is compared with its checksum. Nothing where there is none.
// Throws io::Damaged where it is not as it was written.
std::optional<StoredTokens> open_token_files(const std::string& directory);

}  // namespace lamina::data
