// The matrices of a block while it is traced: what each gives, more of them, and those that
// nothing reads any more. Private to decoder.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/graph.h"
#include "registry/trace.h"

namespace lamina::decoder {

class Matrices {
 public:
  using MakeParam = std::function<Tensor(const registry::ParamDesc&)>;
  explicit Matrices(MakeParam make_param) : make_param_(std::move(make_param)) {}

  // y = x weight^T + bias.
  struct Product {
    Tensor x, weight, bias;  // bias may be null
  };

  void note_param(Tensor param, const registry::ParamDesc& desc);
  void note_product(Tensor y, const Product& product);

  // What `y` is the product of; null if of none.
  const Product* product(Tensor y) const;
  // That of a parameter of the block; null for other values.
  const registry::ParamDesc* desc(Tensor param) const;

  // A parameter `name` ("q_norm.weight") in the folder of `beside`'s module: "attention." of
  // "attention.wq.weight". The rest of `desc` is taken as it is.
  Tensor add(const registry::ParamDesc& beside, std::string_view name, registry::ParamDesc desc);
  // What a parameter is is not read any more; null is nobody's.
  void leave_out(Tensor param);
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  MakeParam make_param_;
  std::unordered_map<ValueId, Product> products_;
  std::unordered_map<ValueId, registry::ParamDesc> params_;
  std::set<std::string> left_out_;
};

// "attention.wq" of "attention.wq.weight".
std::string_view module_of(std::string_view parameter);

}  // namespace lamina::decoder
