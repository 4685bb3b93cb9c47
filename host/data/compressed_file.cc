#include "data/compressed_file.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

// A compressed file may be slightly larger than its contents or much smaller. A file made to fill
// memory or disk expands without limit.
constexpr std::uint64_t kMaxGrowth = 1100;  // deflate reaches 1032
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;

class Reader : public CompressedFile {
 public:
  explicit Reader(const std::string& path) : file_(path, ExitCode::data) {
    io::MappedFile::sequential(file_.bytes());
  }

 protected:
  [[noreturn]] void fail(std::string what, std::string what_to_do) const {
    throw UserError(ExitCode::data, {file_.path(), std::move(what), {std::move(what_to_do)}});
  }
  [[noreturn]] void fail_damaged(std::string_view kind, std::string_view why) const {
    fail(fmt::format("is not a complete {} file: {}", kind, why),
         "download or copy the file again");
  }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  void count(std::size_t num_bytes, std::uint64_t consumed) {
    written_ += num_bytes;
    if (written_ > kSmall && written_ / kMaxGrowth > consumed)
      fail(fmt::format("expands to more than {} times its size", kMaxGrowth),
           "unpack it and check its contents");
  }

 private:
  io::MappedFile file_;
  std::uint64_t written_ = 0;
};

class Gzip final : public Reader {
 public:
  explicit Gzip(const std::string& path) : Reader(path) {
    if (bytes().empty()) fail_damaged("gzip", "it is empty");  // with nothing yet to free
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    LAMINA_ASSERT(inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~Gzip() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      // zlib counts its input in 32 bits.
      const std::size_t left = bytes().size() - consumed_;
      stream_.avail_in = static_cast<uInt>(std::min<std::size_t>(left, 1 << 30));
      stream_.next_in =
          const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes().data())) + consumed_;
      const auto room = static_cast<uInt>(std::min<std::size_t>(out.size() - done, 1 << 30));
      stream_.avail_out = room;
      stream_.next_out = reinterpret_cast<Bytef*>(out.data()) + done;
      const uInt given = stream_.avail_in;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      consumed_ += given - stream_.avail_in;
      done += room - stream_.avail_out;
      count(room - stream_.avail_out, consumed_);
      if (status == Z_STREAM_END) {
        // A file may consist of several gzip members, and zeros may fill its last block, as on
        // tapes.
        ended_ = std::ranges::all_of(bytes().subspan(consumed_),
                                     [](std::byte byte) { return byte == std::byte{0}; });
        if (ended_) consumed_ = bytes().size();
        inflateReset(&stream_);
      } else if (status == Z_BUF_ERROR ||
                 (status == Z_OK && given == 0 && room > 0 && stream_.avail_out == room)) {
        fail_damaged("gzip", "it ends too early");
      } else if (status != Z_OK) {
        fail_damaged("gzip", stream_.msg ? stream_.msg : "its bytes are damaged");
      }
    }
    return done;
  }
  std::uint64_t bytes_done() const override { return consumed_; }

 private:
  z_stream stream_{};
  std::size_t consumed_ = 0;
  bool ended_ = false;
};

class Zstd final : public Reader {
 public:
  explicit Zstd(const std::string& path)
      : Reader(path), stream_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
    if (!stream_) throw std::bad_alloc();
    if (bytes().empty()) fail_damaged("zstd", "it is empty");
    input_ = {bytes().data(), bytes().size(), 0};
  }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size) {
      const std::size_t before_in = input_.pos, before_out = output.pos;
      if (input_.pos == input_.size && at_frame_end_) break;
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (ZSTD_isError(status)) {
        if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge)
          fail("was compressed with a window of more than 128 MiB",
               "compress it without --long or --ultra");
        fail_damaged("zstd", ZSTD_getErrorName(status));
      }
      at_frame_end_ = status == 0;
      count(output.pos - before_out, input_.pos);
      if (!at_frame_end_ && input_.pos == before_in && output.pos == before_out)
        fail_damaged("zstd", "it ends too early");
    }
    return output.pos;
  }
  std::uint64_t bytes_done() const override { return input_.pos; }

 private:
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream_;
  ZSTD_inBuffer input_{};
  bool at_frame_end_ = false;
};

}  // namespace

Compression compression_of(std::string_view path) {
  return path.ends_with(".gz")    ? Compression::gzip
         : path.ends_with(".zst") ? Compression::zstd
                                  : Compression::none;
}

std::unique_ptr<CompressedFile> open_compressed(const std::string& path) {
  if (compression_of(path) == Compression::gzip) return std::make_unique<Gzip>(path);
  return std::make_unique<Zstd>(path);
}

}  // namespace lamina::data
