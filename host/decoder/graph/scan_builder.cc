#include "decoder/graph/scan_builder.h"

#include "core/error.h"

namespace lamina::decoder {

ScanBuilder::ScanBuilder(Graph& outer, std::int64_t times,
                         const std::vector<std::pair<std::string, Tensor>>& consts,
                         const std::vector<Tensor>& carries)
    : times_(times), num_consts_(consts.size()) {
  for (const auto& [name, tensor] : consts) {
    LAMINA_ASSERT(tensor.graph == &outer);
    operands_.push_back(tensor);
    consts_.push_back(body_->add_input(name, tensor.type()));
  }
  for (Tensor carry : carries) {
    operands_.push_back(carry);
    carries_.push_back(body_->add_input("x", carry.type()));
  }
}

Tensor ScanBuilder::inner_const(Tensor outer) const {
  for (std::size_t i = 0; i < num_consts_; ++i)
    if (operands_[i].id == outer.id) return consts_[i];
  LAMINA_ASSERT(false);
  return {};
}

Tensor ScanBuilder::add_x(std::string name, Tensor outer) {
  operands_.push_back(outer);
  const Type& type = outer.type();
  return body_->add_input(std::move(name),
                          type.with(type.shape.without_leading()).stored_as(type.storage));
}

void ScanBuilder::add_y(std::string name, Tensor inner, std::function<void(Tensor)> use,
                        Tensor over) {
  int input = over ? static_cast<int>(body_->value(over.id).index) : -1;
  results_.push_back({std::move(name), inner, input, std::move(use)});
}

std::vector<Tensor> ScanBuilder::finish(
    const std::function<std::shared_ptr<const Graph>(std::shared_ptr<const Graph>)>& share) {
  for (Tensor carry : carries_) body_->add_output("x", carry);
  for (const Result& result : results_) body_->add_output(result.name, result.inner, result.over);
  std::vector<Tensor> made = ops::scan(operands_, {.body = share(body_),
                                                   .times = times_,
                                                   .num_consts = std::ssize(consts_),
                                                   .num_carries = std::ssize(carries_)});
  std::vector<Tensor> out(made.begin(),
                          made.begin() + static_cast<std::ptrdiff_t>(carries_.size()));
  for (std::size_t i = 0; i < results_.size(); ++i) results_[i].use(made[out.size() + i]);
  return out;
}

}  // namespace lamina::decoder
