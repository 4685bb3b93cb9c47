// Builds a scan: its body, and the operands outside. Private to decoder.
//
//   ScanBuilder scan(graph, times, {x});
//   Tensor w = scan.add_x("w", stacked_w);          // inside: one element per iteration
//   scan.carries() = {ops::linear(scan.carries()[0], w)};
//   std::vector<Tensor> carries = scan.finish();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.h"

namespace lamina::decoder {

class ScanBuilder {
 public:
  // `consts` are the same in each iteration. Operands are in `outer`.
  ScanBuilder(Graph& outer, std::int64_t times,
              const std::vector<std::pair<std::string, Tensor>>& consts,
              const std::vector<Tensor>& carries);

  Graph& body() { return *body_; }
  // Returns the body's input for a const. REQUIRES: it was passed as one.
  Tensor inner_const(Tensor outer) const;
  // The carries before an iteration; when the body is complete, the carries after it.
  std::vector<Tensor>& carries() { return carries_; }
  // Returns this iteration's element of `outer`. REQUIRES: no y was added yet.
  Tensor add_x(std::string name, Tensor outer);
  // Stacks `inner` over iterations and calls `use` with the result. With `over`, an x, the result
  // is written over it.
  void add_y(std::string name, Tensor inner, std::function<void(Tensor)> use, Tensor over = {});

  // Adds the scan, then calls the uses in order. `share` may return another, equal body.
  std::vector<Tensor> finish(
      const std::function<std::shared_ptr<const Graph>(std::shared_ptr<const Graph>)>& share);

 private:
  struct Result {
    std::string name;
    Tensor inner;
    int over;
    std::function<void(Tensor)> use;
  };

  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  std::int64_t times_;
  std::size_t num_consts_;
  std::vector<Tensor> operands_;
  std::vector<Tensor> consts_;  // inside
  std::vector<Tensor> carries_;
  std::vector<Result> results_;
};

}  // namespace lamina::decoder
