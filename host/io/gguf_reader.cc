#include "io/gguf_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/printable.h"
#include "io/foreign_file.h"

namespace lamina::io {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF data is used in place");

using Type = GgufValue::Type;

constexpr std::uint64_t kMaxNameBytes = 4096;  // of keys and of tensors' names
constexpr std::uint32_t kMaxFileDims = 4;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 24;
// Minimum size of an entry: a length, a type, and a value or dims and an offset.
constexpr std::uint64_t kLeastEntryBytes = 8 + 4 + 1, kLeastTensorBytes = 8 + 4 + 4 + 8;

struct PlainType {
  std::uint32_t number;
  DType dtype;
};
constexpr PlainType kPlainTypes[] = {{0, DType::f32},  {1, DType::f16},  {24, DType::i8},
                                     {25, DType::i16}, {26, DType::i32}, {27, DType::i64},
                                     {28, DType::f64}, {30, DType::bf16}};

// Names of types without a row here, for messages.
constexpr std::pair<std::uint32_t, std::string_view> kOtherTypes[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {29, "IQ1_M"},  {34, "TQ1_0"},
    {35, "TQ2_0"}, {40, "NVFP4"}, {41, "Q1_0"},    {42, "Q2_0"},
};

std::string type_text(std::uint32_t number) {
  for (const auto& [known, name] : kOtherTypes)
    if (known == number) return std::string(name);
  return fmt::format("type {}", number);
}

std::string readable_types() {
  std::string out = "F32, F16, BF16, F64";
  for (const formats::BlockFormat& format : formats::block_formats())
    if (format.gguf_type != formats::kNoGgufType) out += fmt::format(", {}", format.name);
  return out;
}

class Reader {
 public:
  explicit Reader(const MappedFile& file) : file_(file), bytes_(file.bytes()) {}

  void read(std::vector<GgufValue>& metadata, std::vector<GgufTensor>& tensors) {
    const auto [num_tensors, num_values] = read_begin();
    for (std::uint64_t i = 0; i < num_values; ++i) metadata.push_back(read_value(i));
    for (std::uint64_t i = 0; i < num_tensors; ++i) tensors.push_back(read_tensor());
    place(tensors, alignment_of(metadata));
  }

 private:
  [[noreturn]] void fail(std::string what, std::string hint) const {
    throw UserError(ExitCode::checkpoint, {file_.path(), std::move(what), {std::move(hint)}});
  }
  [[noreturn]] void fail(std::string what) const {
    std::string hint = bytes_.size() >= 4 && std::memcmp(bytes_.data(), "GGUF", 4) == 0
                           ? std::string()
                           : looks_like(bytes_);
    if (hint.empty()) hint = "the file is damaged or truncated: download it again";
    fail(std::move(what), std::move(hint));
  }
  [[noreturn]] void fail_tensor(std::string_view name, std::string what,
                                std::vector<std::string> notes = {}) const {
    if (notes.empty()) notes.emplace_back("the file is damaged or truncated: download it again");
    throw UserError(ExitCode::checkpoint,
                    {fmt::format("{}: tensor '{}'", file_.path(), printable(name)), std::move(what),
                     std::move(notes)});
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > left())
      fail(fmt::format("{} at byte {} needs {} bytes, but only {} remain", what, at_, count,
                       left()));
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string_view string(std::string_view what, std::uint64_t max_bytes) {
    const std::size_t begin = at_;
    const auto length = number<std::uint64_t>(what);
    if (length > max_bytes)
      fail(fmt::format("{} at byte {} has a length of {} bytes; the maximum is {}", what, begin,
                       length, max_bytes));
    const auto text = take(length, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  std::pair<std::uint64_t, std::uint64_t> read_begin() {
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0)
      fail("is not a GGUF file: it does not begin with \"GGUF\"");
    at_ = 4;
    const auto version = number<std::uint32_t>("the version");
    if (version == 2u << 24 || version == 3u << 24)
      fail("is a big-endian GGUF file; expected a little-endian one",
           "convert it with `gguf-convert-endian FILE little` of the Python package gguf, or "
           "download the little-endian file");
    if (version == 1)
      fail("has GGUF version 1; expected 2 or 3", "convert the model again with a current program");
    if (version != 2 && version != 3)
      fail(fmt::format("has GGUF version {}; expected 2 or 3", version));
    const auto num_tensors = number<std::uint64_t>("the number of tensors");
    const auto num_values = number<std::uint64_t>("the number of keys");
    if (num_tensors > left() / kLeastTensorBytes || num_values > left() / kLeastEntryBytes)
      fail(fmt::format("claims to have {} tensors and {} keys, which do not fit into its {} bytes",
                       num_tensors, num_values, bytes_.size()));
    return {num_tensors, num_values};
  }

  static bool is_known(std::uint32_t type) { return type <= static_cast<std::uint32_t>(Type::f64); }

  GgufValue read_value(std::uint64_t index) {
    GgufValue out;
    out.key = string(fmt::format("the name of key {}", index), kMaxNameBytes);
    if (out.key.empty()) fail(fmt::format("key {} has no name", index));
    const std::string what = fmt::format("the value of '{}'", printable(out.key));
    auto type = number<std::uint32_t>(what);
    std::uint64_t count = 1;
    if (is_known(type) && static_cast<Type>(type) == Type::array) {
      out.is_array = true;
      type = number<std::uint32_t>(what);
      count = number<std::uint64_t>(what);
      if (is_known(type) && static_cast<Type>(type) == Type::array)
        fail(fmt::format("{} is a list of lists, which is not supported", what));
    }
    if (!is_known(type))
      fail(
          fmt::format("{} has type {}; expected a type from 0 to "
                      "12",
                      what, type));
    out.type = static_cast<Type>(type);
    const std::uint64_t least = out.type == Type::string ? 8 : gguf_number_bytes(out.type);
    if (count > left() / least)
      fail(
          fmt::format("{} has a length of {} elements, which do not fit into the remaining {} "
                      "bytes",
                      what, count, left()));
    if (out.type != Type::string) {
      out.data = take(count * least, what);
      return out;
    }
    out.strings.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) out.strings.push_back(string(what, bytes_.size()));
    return out;
  }

  std::uint64_t alignment_of(const std::vector<GgufValue>& metadata) const {
    constexpr std::string_view kKey = "general.alignment";
    for (const GgufValue& value : metadata) {
      if (value.key != kKey) continue;
      const bool one = !value.is_array && value.type != Type::string;
      const std::int64_t alignment = one ? value.integer(0).value_or(0) : 0;
      if (alignment <= 0 || static_cast<std::uint64_t>(alignment) > kMaxAlignment ||
          !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
        fail(fmt::format("'{}' must be a power of two up to {}", kKey, kMaxAlignment));
      return static_cast<std::uint64_t>(alignment);
    }
    return 32;
  }

  GgufTensor read_tensor() {
    GgufTensor out;
    out.name = string("the name of a tensor", kMaxNameBytes);
    if (out.name.empty()) fail(fmt::format("a tensor before byte {} has no name", at_));
    const auto ndim = number<std::uint32_t>("the dims of a tensor");
    if (ndim > kMaxFileDims)
      fail_tensor(out.name, fmt::format("has {} dims; the maximum is {}", ndim, kMaxFileDims));
    std::vector<std::int64_t> dims;
    std::int64_t elements = 1;
    for (std::uint32_t i = 0; i < ndim; ++i) {
      const auto dim = number<std::int64_t>("the dims of a tensor");
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements))
        fail_tensor(out.name, "has a negative dim, or more than 2^63 elements");
      dims.insert(dims.begin(), dim);  // the file lists the contiguous dim first
    }
    out.shape = Shape(dims);
    const auto type = number<std::uint32_t>("the type of a tensor");
    ends_.push_back(
        {number<std::uint64_t>("the offset of a tensor"), bytes_of(out, type, elements)});
    return out;
  }

  // Sets the type and returns the number of bytes.
  std::uint64_t bytes_of(GgufTensor& tensor, std::uint32_t type, std::int64_t elements) const {
    std::int64_t per_block = 1, block_bytes = 0;
    tensor.format = formats::find_block_format(type);
    if (tensor.format) {
      per_block = tensor.format->num_values;
      block_bytes = tensor.format->num_bytes;
      const std::int64_t row = tensor.shape.ndim() > 0 ? tensor.shape[-1] : 1;
      if (row % per_block != 0)
        fail_tensor(tensor.name, fmt::format("has rows of {} values in {}, whose blocks have {}",
                                             row, tensor.format->name, per_block));
    } else {
      const auto* plain = std::ranges::find(kPlainTypes, type, &PlainType::number);
      if (plain == std::end(kPlainTypes))
        fail_tensor(
            tensor.name, fmt::format("is stored as {}, which lamina cannot read", type_text(type)),
            {"it reads " + readable_types(), "use a file of the same model in one of these types"});
      tensor.dtype = plain->dtype;
      block_bytes = size_bytes(plain->dtype);
    }
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(elements / per_block, block_bytes, &bytes))
      fail_tensor(tensor.name, "needs more than 2^63 bytes");
    return static_cast<std::uint64_t>(bytes);
  }

  // Assigns each tensor its bytes. In order of offset, tensors must not overlap.
  void place(std::vector<GgufTensor>& tensors, std::uint64_t alignment) {
    const std::uint64_t padding = (alignment - at_ % alignment) % alignment;
    const auto data = bytes_.subspan(std::min<std::uint64_t>(bytes_.size(), at_ + padding));
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return ends_[i]; });
    std::uint64_t end = 0;
    std::string_view last;  // the tensor that ends there
    for (std::size_t i : order) {
      const auto [begin, length] = ends_[i];
      if (begin % alignment != 0)
        fail_tensor(tensors[i].name, fmt::format("begins at byte {} of the data, which is not a "
                                                 "multiple of the alignment {}",
                                                 begin, alignment));
      if (begin < end)
        fail_tensor(tensors[i].name,
                    fmt::format("begins at byte {} of the data, but tensor '{}' ends at {}", begin,
                                printable(last), end));
      if (begin > data.size() || length > data.size() - begin)
        fail_tensor(tensors[i].name,
                    fmt::format("needs {} bytes from byte {} of the data, but the file has only "
                                "{}; it is truncated",
                                length, begin, data.size()));
      tensors[i].bytes = data.subspan(begin, length);
      end = begin + length;
      last = tensors[i].name;
    }
  }

  const MappedFile& file_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ends_;  // begin and length of each tensor
};

}  // namespace

std::size_t gguf_number_bytes(GgufValue::Type type) {
  switch (type) {
    case Type::u8:
    case Type::i8:
    case Type::boolean:
      return 1;
    case Type::u16:
    case Type::i16:
      return 2;
    case Type::u64:
    case Type::i64:
    case Type::f64:
      return 8;
    default:
      return 4;
  }
}

void read_gguf(const MappedFile& file, std::vector<GgufValue>& metadata,
               std::vector<GgufTensor>& tensors) {
  Reader(file).read(metadata, tensors);
}

}  // namespace lamina::io
