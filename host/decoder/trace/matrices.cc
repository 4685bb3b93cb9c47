#include "decoder/trace/matrices.h"

#include <utility>

namespace lamina::decoder {

std::string_view module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? std::string_view{} : parameter.substr(0, dot);
}

void Matrices::note_param(Tensor param, const registry::ParamDesc& desc) {
  params_.insert_or_assign(param.id, desc);
}

void Matrices::note_product(Tensor y, const Product& product) {
  products_.insert_or_assign(y.id, product);
}

const Matrices::Product* Matrices::product(Tensor y) const {
  const auto at = products_.find(y.id);
  return at == products_.end() ? nullptr : &at->second;
}

const registry::ParamDesc* Matrices::desc(Tensor param) const {
  const auto at = params_.find(param.id);
  return at == params_.end() ? nullptr : &at->second;
}

Tensor Matrices::add(const registry::ParamDesc& beside, std::string_view name,
                     registry::ParamDesc desc) {
  const std::string folder(module_of(module_of(beside.name)));
  desc.beside = beside.name;
  desc.name = (folder.empty() ? "" : folder + ".") + std::string(name);
  return make_param_(desc);
}

void Matrices::leave_out(Tensor param) {
  if (!param) return;
  if (const registry::ParamDesc* known = desc(param)) left_out_.insert(known->name);
}

}  // namespace lamina::decoder
