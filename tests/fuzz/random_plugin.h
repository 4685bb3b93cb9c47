// A plugin whose build makes random calls of the C API, chosen by the bytes of the input.
#pragma once

#include <string_view>
#include <vector>

#include "fuzz/choices.h"
#include "graph/op.h"
#include "lamina/abi.h"
#include "ops/decode.h"
#include "registry/family.h"

namespace lamina::fuzz {

// Sizes of the only family, which has one block.
inline constexpr std::int64_t kWidth = 4, kVocab = 7, kLayers = 2;
const registry::Family& family();
// Sets the bytes that the next builds read.
void read_from(Bytes& bytes);

template <typename T>
lamina_span_t span(const std::vector<T>& list) {
  return {list.data(), static_cast<std::uint32_t>(list.size()), sizeof(T)};
}

// One sequence of calls, as a plugin would make them.
class Caller {
 public:
  Caller(Bytes& bytes, lamina_build_t* build, const lamina_io_t* io);
  lamina_status_t run();

 private:
  // Attributes of one use of an op, for the host and for its shape rule.
  struct Attributes {
    std::vector<lamina_attr_t> given;
    std::vector<AttrValue> values;  // one per attribute of the op
    std::vector<std::vector<std::int64_t>> integers;
    std::vector<std::vector<double>> numbers;
  };

  void keep(lamina_status_t status) {
    if (status_ == LAMINA_OK) status_ = status;
  }
  // Stores a tensor that the host returned, with its type.
  void take(lamina_tensor_t handle);
  lamina_tensor_t pick_handle() { return handles_[bytes_.below(handles_.size())]; }
  lamina_tensor_t integer_as_handle();
  const Type& some_type() { return types_[bytes_.below(types_.size())]; }
  std::int64_t integer();
  // The shape of an existing tensor, a shape derived from one, or any shape.
  std::vector<std::int64_t> sizes();

  void call();
  void param();
  void input();
  void scope();
  void name_it();
  void add_auxiliary(std::uint32_t kind, lamina_tensor_t value, std::uint32_t reduce);
  void add_all();
  void update();
  void region();
  // A call that no SDK makes.
  void odd();
  // The last tensor that has the type of carry `i`.
  lamina_tensor_t result(std::uint32_t i);

  // random_ops.cc
  void emit();
  void emit(const Op& op, const std::vector<int>& operands, const Attributes& attrs);
  Attributes attributes(const Op& op);
  // True if the op's shape rule accepts the use: most sequences should have many calls.
  bool accepted(const Op& op, const std::vector<int>& operands, const Attributes& attrs) const;
  std::int64_t dim(const std::vector<int>& operands, std::size_t input, int dim) const;
  // Declares a state, usually the state that the op needs.
  void state_of(const Op* op, const std::vector<int>& operands, std::uint32_t kind,
                const Attributes* attrs = nullptr);

  Bytes& bytes_;
  lamina_build_t* build_;
  const lamina_build_api_t& api_;
  const lamina_io_t& io_;
  std::vector<lamina_tensor_t> handles_;
  std::vector<Type> types_;  // the types of handles_
  lamina_state_t state_ = 0;
  lamina_status_t status_ = LAMINA_OK;
  int open_scopes_ = 0, next_name_ = 0;
};

}  // namespace lamina::fuzz
