#include "data/stores.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/system_error.h"
#include "data/store_key.h"
#include "data/token_part.h"
#include "data/token_store.h"
#include "io/directory_lock.h"
#include "io/durable_file.h"
#include "io/manifest.h"

namespace lamina::data {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::vector<std::string>>;

std::uint64_t bytes_of(const Files& files) {
  std::uint64_t total = 0;
  for (const auto& source : files)
    for (const std::string& file : source) total += fs::file_size(file);
  return total;
}

StoredTokens in_memory(const std::vector<std::string>& patterns, const Reading& reading,
                       const Workers& workers) {
  auto store = std::make_shared<const TokenStore>(tokenize_files(patterns, reading, workers));
  return {.view = view_of(store), .sources = store->sources, .path = "", .was_made = false};
}

// The key of a store covers no vocabulary of a model, so that models of several sizes share it.
void check_ids(const StoredTokens& store, const Reading& reading) {
  const bool are_produced = reading.form != DataForm::tokens;
  if (are_produced && reading.tokenizer.vocab_size() <= reading.vocab_size) return;
  std::vector<std::int32_t> ids(std::size_t{1} << 16);
  const TokenIds& all = store.view.tokens;
  for (std::size_t first = 0; first < all.size(); first += ids.size()) {
    ids.resize(std::min(ids.size(), all.size() - first));
    all.copy(first, ids);
    const auto largest = std::ranges::max_element(ids);
    if (*largest < reading.vocab_size) continue;
    if (are_produced) fail_produced_id(store.path, *largest, reading);
    fail_id(store.path, first + static_cast<std::size_t>(largest - ids.begin()), *largest,
            reading.vocab_size);
  }
}

// Opens a complete store, or returns nothing. With the lock of the folder what is damaged or
// incomplete is removed.
std::optional<StoredTokens> open_whole(const std::string& path, const Reading& reading,
                                       bool has_lock) {
  try {
    auto found = open_token_files(path);
    if (found) check_ids(*found, reading);
    // A store gets its name when it is complete, so the manifest was removed later.
    if (!found && has_lock && fs::exists(fs::symlink_status(path))) {
      log::warning("{}: the token store has no {}; it will be rebuilt", path, io::kManifestName);
      fs::remove_all(path);
    }
    return found;
  } catch (const io::Damaged& damage) {
    if (has_lock) {
      log::warning("{}: the token store is damaged ({}); it will be rebuilt", path,
                   damage.text().where);
      fs::remove_all(path);
    }
    return {};
  }
}

class Maker {
 public:
  Maker(const Files& files, const Reading& reading, const StoreOptions& options, std::string key)
      : files_(files),
        reading_(reading),
        options_(options),
        key_(std::move(key)),
        num_bytes_(bytes_of(files)) {}

  // Errors: as open_or_make_store().
  void make(const std::string& directory, std::vector<TokenSource> sources) const {
    TokenFilesWriter writer(
        directory, {.is_narrow = reading_.has_narrow_ids(), .has_loss = has_masks(reading_.form)},
        sources);
    PartStream stream(files_, reading_, options_.part_bytes);
    for (std::uint64_t i = 0; i < writer.num_parts(); ++i) {
      static_cast<void>(stream.next());
      if (reading_.between) reading_.between();
    }
    const std::uint64_t first = stream.bytes_done();
    std::uint64_t saved = first;
    try {
      tokenize_parts(stream, reading_, options_.workers, [&](std::size_t source, TokenPart part) {
        writer.add(part);
        sources[source].add(part);
        const std::uint64_t done = stream.bytes_done();
        if (options_.progress) options_.progress({done, num_bytes_, first, writer.num_tokens()});
        if (done - saved < options_.save_every_bytes) return;
        writer.save(sources);
        saved = done;
      });
      check_unchanged();
    } catch (const Error&) {
      throw;         // the last save is complete
    } catch (...) {  // interrupted
      writer.save(sources);
      throw;
    }
    check_tokens(writer.num_tokens(), files_, sources, reading_.form);
    writer.finish(sources);
  }

 private:
  // The key was computed before the files were tokenized: tokens of files that changed in between
  // must not be found by it.
  void check_unchanged() const {
    if (store_key(files_, reading_) == key_) return;
    throw UserError(ExitCode::data, {files_.front().front(),
                                     "this file, or another that is read with it, changed while "
                                     "it was tokenized, so its tokens are not kept",
                                     {"run the same command again once nothing writes the files"}});
  }

  const Files& files_;
  const Reading& reading_;
  const StoreOptions& options_;
  std::string key_;
  std::uint64_t num_bytes_;
};

// Waits while another process builds a store in the folder.
std::optional<io::DirectoryLock> lock_or_wait(const std::string& folder, const Reading& reading) {
  for (bool is_first = true;; is_first = false) {
    try {
      return std::make_optional<io::DirectoryLock>(folder);
    } catch (const UserError& in_use) {
      if (is_first)
        log::info("{} {}, which builds a token store; waiting for it", folder, in_use.text().what);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (reading.between) reading.between();
  }
}

}  // namespace

StoredTokens open_or_make_store(const std::vector<std::string>& patterns, const Reading& reading,
                                const StoreOptions& options) {
  const Files files = find_sources(patterns, reading.form);
  const std::vector<TokenSource> sources = empty_sources(patterns, files);
  const std::string key = store_key(files, reading);
  const std::string path = options.folder + "/" + key;
  const auto named = [&](StoredTokens tokens, bool was_made) {
    for (std::size_t i = 0; i < patterns.size(); ++i) tokens.sources[i].name = patterns[i];
    tokens.view.name = patterns.front();
    tokens.was_made = was_made;
    return tokens;
  };
  if (auto found = open_whole(path, reading, false)) return named(std::move(*found), false);
  if (bytes_of(files) < options.min_bytes) return in_memory(patterns, reading, options.workers);
  const std::string building = path + ".building";
  std::error_code error;
  fs::create_directories(building, error);
  if (error) {
    if (options.is_required)
      throw DeviceError(ExitCode::checkpoint,
                        {building,
                         fmt::format("cannot be created: {}", system_error_text(error.value())),
                         {"set data.store to a writable folder"}});
    log::warning(
        "{}: cannot be created: {}; the tokens are kept in memory. Set data.store to a writable "
        "folder",
        building, system_error_text(error.value()));
    return in_memory(patterns, reading, options.workers);
  }
  const auto lock = lock_or_wait(options.folder, reading);
  if (!lock->problem().empty()) {
    log::warning("{}", lock->problem());
    if (!options.is_required) {
      log::warning("the tokens are kept in memory; set data.store to a folder with locks");
      fs::remove(building, error);  // unless `data build` is writing it
      return in_memory(patterns, reading, options.workers);
    }
  }
  if (auto found = open_whole(path, reading, true)) {  // built by another process in the meantime
    fs::remove_all(building, error);
    return named(std::move(*found), false);
  }
  fs::create_directories(building);  // another process may have removed it
  try {
    Maker(files, reading, options, key).make(building, sources);
  } catch (const UserError&) {
    fs::remove_all(building, error);  // changed files get another key
    throw;
  }
  fs::rename(building, path);
  io::sync_directory(options.folder);
  auto made = open_whole(path, reading, true);
  if (!made)
    throw DeviceError(ExitCode::checkpoint, {path,
                                             "was removed directly after it was "
                                             "built",
                                             {}});
  return named(std::move(*made), true);
}

}  // namespace lamina::data
