#include "weights/weights.h"
#include "weights/publish/published.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "graph/bytes_type.h"
#include "io/stored_weight.h"
#include "runtime/host_access.h"
#include "runtime/upload.h"
#include "weights/initialise.h"
#include "weights/quantise/quantise.h"
#include "weights/stored.h"

namespace lamina::weights {
namespace {

// Returns the bytes of a piece if they equal the parameter's in type `wanted`; else null.
const std::byte* bytes_of(const TensorMap& map, const io::WeightFiles& files, const Piece& piece,
                          DType wanted) {
  const io::StoredWeight weight(files, map.tensor_of(piece).name);
  if (!weight.is_plain() || weight.data().dtype != wanted || piece.changes_values() ||
      !piece.view.is_contiguous())
    return nullptr;
  return weight.data().bytes.data() + piece.view.offset * size_bytes(wanted);
}

// Returns the bytes in the file if a program can read them there: blocks, or one piece with aligned
// elements.
const std::byte* bytes_in_place(const TensorMap& map, const io::WeightFiles& files, int parameter,
                                const Type& type, bool is_stored) {
  if (type.storage) return is_stored ? blocks_in_place(map, files, parameter) : nullptr;
  const DType wanted = type.dtype;
  const auto pieces = map.pieces_of(parameter);
  if (pieces.size() != 1) return nullptr;
  const std::byte* bytes = bytes_of(map, files, pieces.front(), wanted);
  const auto size = static_cast<std::uintptr_t>(size_bytes(wanted));
  return reinterpret_cast<std::uintptr_t>(bytes) % size == 0 ? bytes : nullptr;
}

void initialise_into(const decoder::Parameter& parameter, std::uint64_t seed, Queue& queue,
                     const TensorRef& out) {
  std::vector<float> values(static_cast<std::size_t>(parameter.num_elements()));
  initialise(parameter, seed, values);
  write_tensor<std::byte>(queue, out, [&](std::span<std::byte> bytes) {
    if (out.type().storage)
      encode_rows(
          rows_of(parameter), "initial values",
          [&](std::int64_t first, std::span<float> to) {
            std::copy_n(values.begin() + first, to.size(), to.begin());
          },
          {}, bytes.data());
    else
      store(values, out.type().dtype, 0, bytes.data());
  });
}

}  // namespace

void store(std::span<const float> values, DType dtype, std::int64_t first, std::byte* out) {
  out += first * size_bytes(dtype);
  auto as = [&]<typename T>(T*, auto convert) {
    for (std::size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<T*>(out)[i] = convert(values[i]);
  };
  if (dtype == DType::f32)
    std::memcpy(out, values.data(), values.size_bytes());
  else if (dtype == DType::bf16)
    as(static_cast<bfloat16*>(nullptr), to_bfloat16);
  else if (dtype == DType::f16)
    as(static_cast<float16*>(nullptr), to_float16);
  else if (dtype == DType::f64)
    as(static_cast<double*>(nullptr), [](float v) { return static_cast<double>(v); });
  else if (dtype == DType::i32)
    as(static_cast<std::int32_t*>(nullptr),
       [](float v) { return static_cast<std::int32_t>(std::lrint(v)); });
  else if (dtype == DType::i64)
    as(static_cast<std::int64_t*>(nullptr),
       [](float v) { return static_cast<std::int64_t>(std::llrint(v)); });
  else
    LAMINA_ASSERT(false && "tensors are f32, bf16, f16, f64 or integers");
}

bool is_stored_as(const TensorMap& map, const io::WeightFiles& files, int parameter, DType dtype) {
  const auto pieces = map.pieces_of(parameter);
  return !pieces.empty() && std::ranges::all_of(pieces, [&](const Piece& piece) {
    const io::StoredWeight weight(files, map.tensor_of(piece).name);
    return weight.is_plain() && weight.data().dtype == dtype && !piece.changes_values();
  });
}

void read_as(const TensorMap& map, const io::WeightFiles& files, int parameter, DType wanted,
             std::byte* out, const Workers& workers) {
  std::vector<const std::byte*> bytes;
  for (const Piece& piece : map.pieces_of(parameter)) {
    bytes.push_back(bytes_of(map, files, piece, wanted));
    if (!bytes.back())
      return read_parameter(
          map, files, parameter,
          [&](std::int64_t first, std::span<const float> values) {
            store(values, wanted, first, out);
          },
          workers);
  }
  const auto pieces = map.pieces_of(parameter);
  work_on_all(workers, std::ssize(pieces), [&](std::int64_t i) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    std::memcpy(out + piece.first * size_bytes(wanted), bytes[static_cast<std::size_t>(i)],
                static_cast<std::size_t>(piece.num_elements() * size_bytes(wanted)));
  });
}

void read_values(const decoder::Model& model, const TensorMap& map, const io::WeightFiles& files,
                 int parameter, std::span<float> out) {
  if (map.pieces_of(parameter).empty())
    initialise(model.parameters()[parameter], 0, out);
  else
    read_parameter(map, files, parameter, 0, out);
}

Weights Weights::load(const decoder::Model& model, std::shared_ptr<const io::WeightFiles> files,
                      DType compute, const Backend& backend, const Workers& workers,
                      const std::function<void()>& between) {
  const auto map = std::make_shared<const TensorMap>(match_weights(model, *files));
  const auto& parameters = model.parameters().all();
  const auto num_parameters = parameters.size();
  Queue& queue = backend.context().queue();
  Weights out;
  out.files_ = files;
  out.tensors_.resize(num_parameters);
  out.own_tensors_.resize(num_parameters);
  out.in_place_.resize(num_parameters);
  std::vector<std::size_t> parts(num_parameters);
  std::vector<bool> is_stored(num_parameters);  // in the blocks of the parameter
  for (std::size_t i = 0; i < num_parameters; ++i) {
    const Type type = parameters[i].used_type(compute);
    is_stored[i] = type.storage &&
                   stored_format(parameters[i], *map, *files, static_cast<int>(i)) == type.storage;
    const std::byte* bytes =
        backend.reaches(MemoryKind::mapped)
            ? bytes_in_place(*map, *files, static_cast<int>(i), type, is_stored[i])
            : nullptr;
    if (bytes) {
      out.in_place_[i] = {bytes, bytes_of(type)};
      out.tensors_[i] = mapped_tensor(bytes, type);
    } else {
      parts[i] = out.owned_->parts.add(bytes_of(type));
    }
  }
  out.owned_->parts.allocate(backend);
  std::shared_ptr<Upload>& upload = out.owned_->upload;
  if (!backend.reaches(MemoryKind::host)) upload = std::make_shared<Upload>(backend);
  for (std::size_t i = 0; i < num_parameters; ++i) {
    if (out.is_mapped(static_cast<int>(i))) continue;
    const Type type = parameters[i].used_type(compute);
    const TensorRef& tensor = out.own_tensors_[i] = out.owned_->parts.tensor(parts[i], type);
    out.tensors_[i] = tensor;
    if (map->pieces_of(static_cast<int>(i)).empty()) {
      // An optional tensor that is missing.
      initialise_into(parameters[i], 0, queue, tensor);
      continue;
    }
    const bool has_blocks = is_stored[i];
    // An upload calls it later, when `model` may be gone.
    const auto read = [map, files, parameter = parameters[i], index = static_cast<int>(i), type,
                       has_blocks](const Workers& threads, std::byte* to) {
      if (type.storage && !has_blocks)
        read_quantised(parameter, *map, *files, index, threads, to);
      else if (type.storage)
        read_blocks(*map, *files, index, to, threads);
      else
        read_as(*map, *files, index, type.dtype, to, threads);
    };
    if (!upload) {
      if (between) between();
      read(workers, host_view<std::byte>(tensor).data());
    } else if (const std::byte* bytes =
                   bytes_in_place(*map, *files, static_cast<int>(i), type, has_blocks)) {
      upload->add(tensor, {bytes, bytes_of(type)});
    } else {
      upload->add(tensor, read);
    }
  }
  if (upload) upload->start(between);
  return out;
}

void Weights::wait_until_read() const {
  if (owned_->upload) owned_->upload->wait_until_read();
}

std::span<const float> WeightValues::operator()(int parameter) {
  const ConstTensorRef& tensor = weights_.pointers()[static_cast<std::size_t>(parameter)];
  if (is_host_memory(tensor.kind())) return host_view<float>(tensor);
  const auto [found, is_new] = copies_.try_emplace(parameter);
  if (is_new) found->second = copy_to_host<float>(queue_, tensor);
  return found->second;
}

TensorRef Weights::own_tensor(int parameter) const {
  LAMINA_ASSERT(!is_mapped(parameter));
  return own_tensors_[static_cast<std::size_t>(parameter)];
}

void Weights::map_pages(const std::function<bool()>& keep_going) const {
  constexpr std::size_t kPart = std::size_t{4} << 20;  // takes a millisecond, or a few from a disk
  for (std::span<const std::byte> rest : in_place_)
    while (!rest.empty()) {
      const std::size_t num_bytes = std::min(kPart, rest.size());
      if (!keep_going()) return;
      io::MappedFile::map_pages(rest.first(num_bytes));
      rest = rest.subspan(num_bytes);
    }
}

Weights Weights::initialise(const decoder::Model& model, std::uint64_t seed, DType compute,
                            const Backend& backend) {
  const auto& parameters = model.parameters().all();
  Weights out;
  out.in_place_.resize(parameters.size());
  for (const decoder::Parameter& p : parameters)
    out.owned_->parts.add(bytes_of(p.used_type(compute)));
  out.owned_->parts.allocate(backend);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    out.own_tensors_.push_back(out.owned_->parts.tensor(i, parameters[i].used_type(compute)));
    initialise_into(parameters[i], seed, backend.context().queue(), out.own_tensors_[i]);
  }
  out.tensors_.assign(out.own_tensors_.begin(), out.own_tensors_.end());
  return out;
}

}  // namespace lamina::weights
