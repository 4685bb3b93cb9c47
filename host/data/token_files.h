// A token store on disk: tokens of documents in mapped files, which runs share without copies in
// memory.
//
//   tokens      ids, 2 bytes each (Reading::has_narrow_ids()), else 4; little-endian
//   documents   where each begins, 8 bytes; and the end of the last
//   loss        a byte for each token: 1 if it is in the loss; only for conversations
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
  std::string path;       // the store's directory; "" for a store in memory
  bool was_made = false;  // by this call
};

// Writes a store into a directory, from the beginning or from where an interrupted writer stopped.
class TokenFilesWriter {
 public:
  struct Shape {
    bool is_narrow = false;  // ids of 2 bytes
    bool has_loss = false;
  };

  // Resumes in `directory` if save() has been called there and the files still have the checksums
  // that it wrote, else starts again. `sources` must be
  // empty and receives the saved state. Errors, here and below (DeviceError, class checkpoint): the
  // disk is full, the directory cannot be written.
  TokenFilesWriter(std::string directory, Shape shape, std::vector<TokenSource>& sources);
  TokenFilesWriter(const TokenFilesWriter&) = delete;
  TokenFilesWriter& operator=(const TokenFilesWriter&) = delete;
  ~TokenFilesWriter();

  std::uint64_t num_parts() const { return num_parts_; }
  std::uint64_t num_tokens() const { return num_tokens_; }

  void add(const TokenPart& part);
  // Makes everything added so far durable.
  void save(const std::vector<TokenSource>& sources);
  // Writes the manifest. REQUIRES: no calls follow.
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

// Maps a store, and verifies the checksum of every byte and the offsets of the documents. Returns
// nothing if there is none. Throws io::Damaged if it does not match them.
std::optional<StoredTokens> open_token_files(const std::string& directory);

}  // namespace lamina::data
