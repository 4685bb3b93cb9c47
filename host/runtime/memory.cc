#include "runtime/memory.h"

#include "core/error.h"

namespace lamina {
namespace {

class BorrowedMemory final : public Buffer {
 public:
  explicit BorrowedMemory(MemoryKind kind) : Buffer(kind) { bytes_ = SIZE_MAX; }
};

}  // namespace

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host:
      return "host";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::device:
      return "device";
    case MemoryKind::mapped:
      return "mapped file";
  }
  return "";
}

Buffer& host_memory() {
  static BorrowedMemory memory(MemoryKind::host);
  return memory;
}

const Buffer& mapped_memory() {
  static const BorrowedMemory memory(MemoryKind::mapped);
  return memory;
}

void ConstTensorRef::check_bounds(const Buffer& buffer, std::size_t offset, const Type& type) {
  const auto bytes = static_cast<std::size_t>(type.bytes());
  LAMINA_ASSERT(bytes <= buffer.bytes() && offset <= buffer.bytes() - bytes);
}

void ConstTensorRef::move_to(std::int64_t first, const Type& type) {
  const std::int64_t offset = first * size_bytes(type_.dtype);
  LAMINA_ASSERT(first >= 0 && offset + type.bytes() <= type_.bytes());
  address_ += static_cast<Address>(offset);
  type_ = type;
}

namespace detail {

void check_host_view(const ConstTensorRef& tensor, DType dtype, std::size_t element_bytes) {
  if (!is_host_memory(tensor.kind()))
    throw InternalError({"memory",
                         fmt::format("the host cannot read a tensor {} in {} memory",
                                     to_string(tensor.type()), name(tensor.kind())),
                         {}});
  LAMINA_ASSERT(element_bytes == 1 || dtype == tensor.type().dtype);
}

}  // namespace detail
}  // namespace lamina
