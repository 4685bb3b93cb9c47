// Graphs as text.
#include <gtest/gtest.h>

#include "ops/tensor.h"

namespace lamina {
namespace {

const Type kRow{DType::bf16, {3}, {}};

TEST(Printer, ShowsAttributesThatDifferTagsAndOrigins) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.set_origin(std::make_shared<Origin>(Origin{"layers/norm", "model.cc", 12}));
  Tensor y = ops::call("rms_norm", {x}, {{"eps", 1e-5}});
  g.set_tag(y.id, "context");
  g.add_output("y", y);
  EXPECT_EQ(
      to_string(g),
      "%0 = input 'x' : bf16[3]\n"
      "%1 = rms_norm(%0) {eps=1e-05} : bf16[3] 'context'  # layers/norm, built at model.cc:12\n"
      "output 'y' = %1\n");
}

TEST(Printer, ShowsAbsentInputsAliasesAndBodies) {
  auto body = std::make_shared<Graph>();
  body->add_output("c", ops::exp(body->add_input("c", kRow)));
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor y = ops::call_all("scan", {x},
                           {{"body", std::shared_ptr<const Graph>(body)},
                            {"times", std::int64_t{4}},
                            {"num_carries", std::int64_t{1}}})[0];
  g.add_output("y", ops::call("layer_norm", {y, {}, x}), 0);
  EXPECT_EQ(to_string(g),
            "%0 = input 'x' : bf16[3]\n"
            "%1 = scan(%0) {body=<1 nodes>, times=4, num_carries=1} : bf16[3]\n"
            "    %0 = input 'c' : bf16[3]\n"
            "    %1 = exp(%0) : bf16[3]\n"
            "    output 'c' = %1\n"
            "%2 = layer_norm(%1, -, %0) : bf16[3]\n"
            "output 'y' = %2 over input x\n");
}

}  // namespace
}  // namespace lamina
