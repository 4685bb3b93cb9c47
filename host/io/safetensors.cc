#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "core/json.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "io/foreign_file.h"

namespace lamina::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is used in place");

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

constexpr StoredType kTypes[] = {
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},
    {"I8", 8, DType::i8},
    {"F8_E5M2", 8, DType::f8_e5m2},
    {"F8_E4M3", 8, DType::f8_e4m3},
    {"F8_E8M0", 8, DType::f8_e8m0},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, DType::i16},
    {"U16", 16, DType::u16},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, DType::u32},
    {"F32", 32, DType::f32},
    {"C64", 64, {}},
    {"F64", 64, DType::f64},
    {"I64", 64, DType::i64},
    {"U64", 64, DType::u64},
};

const StoredType* find_type(std::string_view name) {
  for (const StoredType& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

std::string type_names() {
  std::string names;
  for (const StoredType& type : kTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

constexpr std::string_view kWriteAgain =
    "the file is damaged or was written by a faulty program: download or write it again";

// Reads one header; keeps the file for error messages.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file) {}

  // Every error ends with the same advice.
  void read(std::map<std::string, std::string>& metadata, std::vector<StoredTensor>& tensors) {
    try {
      read_header(metadata);
    } catch (const UserError& error) {
      ErrorText text = error.text();
      if (std::string hint = looks_like(file_.bytes()); !hint.empty())
        text.notes = {std::move(hint)};
      else if (text.notes.empty())
        text.notes = {std::string(kWriteAgain)};
      throw UserError(ExitCode::checkpoint, std::move(text));
    }
    tensors.reserve(entries_.size());
    for (Entry& entry : entries_) tensors.push_back(std::move(entry.stored));
  }

 private:
  struct Entry {
    StoredTensor stored;
    std::uint64_t begin, end;
  };

  [[noreturn]] void fail_file(std::string what) const {
    throw UserError(ExitCode::checkpoint, {file_.path(), std::move(what), {}});
  }

  [[noreturn]] void fail_tensor(std::string_view name, std::string what) const {
    throw UserError(
        ExitCode::checkpoint,
        {fmt::format("{}: tensor '{}'", file_.path(), printable(name)), std::move(what), {}});
  }

  void read_header(std::map<std::string, std::string>& metadata) {
    const std::uint64_t header_bytes = read_header_length();
    const auto text = file_.bytes().subspan(8, header_bytes);
    data_ = file_.bytes().subspan(8 + header_bytes);
    const JsonDocument header = JsonDocument::parse(
        std::string(reinterpret_cast<const char*>(text.data()), text.size()),
        file_.path() + ": header",
        {.code = ExitCode::checkpoint, .positions_are_bytes = true, .first_byte = 8});
    if (!header.root().is_object())
      fail_file(fmt::format("the header must be a JSON object, got {}", header.root().describe()));
    for (const auto& [name, value] : header.root().members())
      if (name != "__metadata__")
        add(name, value);
      else if (!value.is_null())
        for (const auto& [key, entry] : value.members()) metadata.emplace(key, entry.as_string());
    check_cover();
  }

  std::uint64_t read_header_length() const {
    const std::uint64_t file_bytes = file_.bytes().size();
    if (file_bytes < 8)
      fail_file(fmt::format("is {} bytes long; a safetensors file has at least 8", file_bytes));
    std::uint64_t header_bytes;
    std::memcpy(&header_bytes, file_.bytes().data(), 8);
    if (header_bytes > kMaxHeaderBytes && !looks_like(file_.bytes()).empty())
      fail_file("is not a safetensors file");
    if (header_bytes > kMaxHeaderBytes)
      fail_file(fmt::format("the header has a length of {} bytes; the maximum is {}", header_bytes,
                            kMaxHeaderBytes));
    if (header_bytes > file_bytes - 8)
      fail_file(
          fmt::format("the header has a length of {} bytes, but only {} follow; the file is "
                      "truncated or not a safetensors file",
                      header_bytes, file_bytes - 8));
    return header_bytes;
  }

  void add(std::string_view name, const JsonValue& value) {
    const StoredType* type = find_type(value.at("dtype").as_string());
    if (!type)
      fail_tensor(name, fmt::format("the dtype is {}; expected one of {}",
                                    value.at("dtype").describe(), type_names()));
    Entry entry{{std::string(name), type->name, {}, {}}, 0, 0};
    const JsonValue shape = value.at("shape");
    entry.stored.dims.reserve(shape.size());
    std::uint64_t needed = 1;
    bool fits = true;
    for (JsonValue dim : shape.elements()) {
      entry.stored.dims.push_back(dim.as_uint64());
      fits &= !__builtin_mul_overflow(needed, entry.stored.dims.back(), &needed);
    }
    fits &= !__builtin_mul_overflow(needed, static_cast<std::uint64_t>(type->bits), &needed);
    if (!fits)
      fail_tensor(name, fmt::format("{} {} needs more than 2^64 bits", type->name,
                                    dims_text(entry.stored.dims)));
    if (needed % 8 != 0)
      fail_tensor(name, fmt::format("{} {} needs {} bits, which is not a whole number of bytes",
                                    type->name, dims_text(entry.stored.dims), needed));
    const JsonValue offsets = value.at("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2)
      fail_tensor(name,
                  fmt::format("data_offsets must be two integers, got {}", offsets.describe()));
    entry.begin = offsets.element(0).as_uint64();
    entry.end = offsets.element(1).as_uint64();
    if (entry.end < entry.begin)
      fail_tensor(name, fmt::format("data_offsets end at {}, before their begin {}", entry.end,
                                    entry.begin));
    if (entry.end - entry.begin != needed / 8)
      fail_tensor(name, fmt::format("{} {} needs {} bytes, but data_offsets [{}, {}] span {}",
                                    type->name, dims_text(entry.stored.dims), needed / 8,
                                    entry.begin, entry.end, entry.end - entry.begin));
    entries_.push_back(std::move(entry));
  }

  // Sorted by offset, the tensors must cover the data without gaps.
  void check_cover() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.stored.name) < std::tie(b.begin, b.end, b.stored.name);
    });
    std::uint64_t at = 0;
    const StoredTensor* before = nullptr;
    for (Entry& entry : entries_) {
      if (entry.begin != at)
        fail_tensor(
            entry.stored.name,
            fmt::format("begins at byte {} of the data, but {} ends at {}; tensors must neither "
                        "overlap nor leave gaps",
                        entry.begin,
                        before ? fmt::format("'{}'", printable(before->name, 60)) : "the header",
                        at));
      if (entry.end > data_.size())
        fail_tensor(
            entry.stored.name,
            fmt::format("ends at byte {} of the data, but the file has only {}; it is truncated",
                        entry.end, data_.size()));
      entry.stored.bytes = data_.subspan(entry.begin, entry.end - entry.begin);
      at = entry.end;
      before = &entry.stored;
    }
    if (at != data_.size())
      fail_file(fmt::format("{} bytes of data follow the header, but its {} tensors need {}",
                            data_.size(), entries_.size(), at));
  }

  static std::string dims_text(const std::vector<std::uint64_t>& dims) {
    return fmt::format("[{}]", fmt::join(dims, ", "));
  }

  const MappedFile& file_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

}  // namespace

std::string_view safetensors_type(DType dtype) {
  for (const StoredType& type : kTypes)
    if (type.dtype == dtype) return type.name;
  LAMINA_ASSERT(false && "every dtype has a safetensors name");
  return "";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  MappedFile::large_pages(file_.bytes());
  HeaderReader(file_).read(metadata_, tensors_);
  by_name_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

TensorView SafetensorsFile::tensor(std::string_view name) const {
  if (const StoredTensor* stored = find(name)) return view(*stored);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  ErrorText error{
      path(), fmt::format("has no tensor '{}' among its {}", printable(name), tensors_.size()), {}};
  if (const std::string near = nearest_name(name, names); !near.empty())
    error.notes.push_back(fmt::format("did you mean '{}'?", near));
  throw UserError(ExitCode::checkpoint, std::move(error));
}

TensorView SafetensorsFile::view(const StoredTensor& stored) const {
  const auto fail = [&](std::string what) {
    user_error(ExitCode::checkpoint, fmt::format("{}: tensor '{}'", path(), printable(stored.name)),
               "{}", what);
  };
  const StoredType* type = find_type(stored.type);
  if (!type->dtype)
    fail(fmt::format("is stored as {}, which lamina does not support", stored.type));
  if (stored.dims.size() > kMaxDims)
    fail(fmt::format("has {} dims; the maximum is {}", stored.dims.size(), kMaxDims));
  std::vector<std::int64_t> dims;
  for (std::uint64_t dim : stored.dims) {
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(fmt::format("has a dim of size {}; the maximum is 2^63-1", dim));
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  return {stored.name, *type->dtype, Shape(dims), stored.bytes};
}

}  // namespace lamina::io
