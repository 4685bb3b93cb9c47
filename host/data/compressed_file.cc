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

using namespace std::string_view_literals;

// A compressed file may be slightly larger than its contents or much smaller. A file made to fill
// memory or disk expands without limit.
constexpr std::uint64_t kMaxGrowth = 1100;  // deflate reaches 1032
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;

// A form of compressed files: the bytes at their beginning and at an offset.
struct Form {
  std::string_view begin;
  std::size_t then_at;
  std::string_view then, name, unpack;
  std::string_view ending = {};  // of the files that are unpacked here
};
constexpr Form kForms[] = {
    {"\x1f\x8b\x08", 0, "", "gzip", "unpack it with `gzip -d`", ".gz"},
    {"\x28\xb5\x2f\xfd", 0, "", "zstd", "unpack it with `zstd -d`", ".zst"},
    {"\xfd\x37zXZ", 0, "", "xz", "unpack it with `xz -d`"},
    {"]\0\0"sv, 13, "\0"sv, "xz", "unpack it with `xz -d`"},  // the older form, LZMA alone
    {"BZh", 4, "1AY&SY", "bzip2", "unpack it with `bzip2 -d`"},
    {"\x04\x22\x4d\x18", 0, "", "lz4", "unpack it with `lz4 -d`"},
    {"PK\3\4", 0, "", "zip", "unpack it with `unzip`, or save a document (.docx) as text"}};

const Form* form_of(std::string_view bytes) {
  const auto* const form = std::ranges::find_if(kForms, [&](const Form& one) {
    return bytes.starts_with(one.begin) && bytes.size() > one.then_at &&
           bytes.substr(one.then_at).starts_with(one.then);
  });
  return form == std::end(kForms) ? nullptr : form;
}

[[noreturn]] void refuse(const std::string& place, const Form& form, std::string_view expected,
                         std::string advice) {
  throw UserError(ExitCode::data,
                  {place,
                   fmt::format("is compressed with {}; expected {}", form.name, expected),
                   {std::move(advice)}});
}

class Reader : public CompressedFile {
 public:
  explicit Reader(const std::string& path) : file_(path, ExitCode::data) {
    check_ending(path, {reinterpret_cast<const char*>(bytes().data()), bytes().size()});
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

void check_ending(const std::string& path, std::string_view bytes) {
  const Form* form = form_of(bytes);
  if (!form || (!form->ending.empty() && path.ends_with(form->ending))) return;
  const Compression known = compression_of(path);
  refuse(path, *form,
         known == Compression::gzip   ? "gzip"
         : known == Compression::zstd ? "zstd"
                                      : "text",
         form->ending.empty() ? std::string(form->unpack)
                              : fmt::format("give it a name that ends in {}", form->ending));
}

void refuse_compressed(const std::string& place, std::string_view bytes) {
  if (const Form* form = form_of(bytes)) refuse(place, *form, "text", std::string(form->unpack));
}

std::unique_ptr<CompressedFile> open_compressed(const std::string& path) {
  if (compression_of(path) == Compression::gzip) return std::make_unique<Gzip>(path);
  return std::make_unique<Zstd>(path);
}

}  // namespace lamina::data
