// The emulated device keeps the contract of queues, and reports when the host breaks it.
#include <gtest/gtest.h>

#include <numeric>

#include "backends/emulated/backend.h"
#include "ops/op.h"
#include "runtime/host_access.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Backend& backend() { return emulated::emulated_backend(); }
Queue& queue() { return backend().context().queue(); }

Type row_of(std::int64_t count) { return {DType::f32, {count}, {}}; }

class OnDevice {
 public:
  explicit OnDevice(std::int64_t count)
      : buffer_(backend().allocate(static_cast<std::size_t>(row_of(count).bytes()))),
        tensor(*buffer_, 0, row_of(count)) {}

 private:
  std::unique_ptr<Buffer> buffer_;

 public:
  const TensorRef tensor;
};

std::vector<float> counted(std::int64_t count, float first) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST(EmulatedQueue, Example) {
  const OnDevice a(5);
  const std::vector<float> values = counted(5, 1);
  queue().copy(a.tensor, host_tensor(std::span(values)));
  EXPECT_EQ(copy_to_host<float>(queue(), a.tensor), values);
}

TEST(EmulatedQueue, MemoryIsZeroedAlsoWhenItIsUsedAgain) {
  for (int time = 0; time < 3; ++time) {
    const OnDevice a(5000);
    EXPECT_EQ(copy_to_host<float>(queue(), a.tensor), std::vector<float>(5000));
    queue().fill(a.tensor, std::byte{0x42});
  }
}

TEST(EmulatedQueue, WorkRunsLaterThanTheCallReturns) {
  const OnDevice a(3);
  std::vector<float> values = counted(3, 1), read(3);
  queue().copy(a.tensor, host_tensor(std::span(std::as_const(values))));
  queue().copy(host_tensor(std::span(read)), a.tensor);
  EXPECT_EQ(read, std::vector<float>(3));  // nothing has waited
  queue().finish();
  EXPECT_EQ(read, values);
}

// The effect of a missing wait on numbers.
TEST(EmulatedQueue, HostMemoryThatChangesTooEarlyIsCopiedAsItIsThen) {
  const OnDevice a(3);
  std::vector<float> values = counted(3, 1);
  queue().copy(a.tensor, host_tensor(std::span(std::as_const(values))));
  values.assign(3, 7);
  EXPECT_EQ(copy_to_host<float>(queue(), a.tensor), std::vector<float>(3, 7));
}

TEST(EmulatedQueue, OnlyAnEventOrdersWorkOfTwoQueues) {
  int num_first = 0;
  const auto other = backend().context().make_queue();
  for (int time = 0; time < 64; ++time) {
    const OnDevice a(1);
    queue().fill(a.tensor, std::byte{1});
    other->fill(a.tensor, std::byte{2});
    other->finish();
    num_first += read_tensor<std::byte>(queue(), a.tensor,
                                        [](auto bytes) { return bytes[0] == std::byte{2}; });
  }
  EXPECT_GT(num_first, 0);
  EXPECT_LT(num_first, 64);
  for (int time = 0; time < 64; ++time) {
    const OnDevice a(1);
    queue().fill(a.tensor, std::byte{1});
    other->wait(queue().record());
    other->fill(a.tensor, std::byte{2});
    other->finish();
    EXPECT_EQ(copy_to_host<std::byte>(queue(), a.tensor)[0], std::byte{2});
  }
}

TEST(EmulatedQueue, EventsMeasureTheTimeOfWork) {
  const auto before = queue().record();
  const OnDevice a(1 << 20);
  queue().fill(a.tensor, std::byte{1});
  const auto after = queue().record();
  EXPECT_GT(after->seconds(), before->seconds());
}

TEST(EmulatedMemoryDeathTest, TheHostCannotTouchIt) {
  const OnDevice a(3);
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(a.tensor.address()) = 1,
               "the host touched device memory, a buffer of 12 bytes");
}

TEST(EmulatedMemory, HasNoHostView) {
  const OnDevice a(3);
  EXPECT_ERROR_SAYS(host_view<float>(a.tensor), ExitCode::unclassified,
                    "the host cannot read a tensor f32[3] in device memory");
}

TEST(EmulatedProgram, ComputesInOrderWithTransfersOfItsInputsAndOutputs) {
  Graph g;
  Tensor x = g.add_input("x", row_of(5)), state = g.add_input("state", row_of(5));
  g.add_output("y", ops::shift(ops::scale(x, 2), 1));
  g.add_output("state", state + x, 1);
  const auto out =
      run(g, {array(row_of(5), {0, 1, 2, 3, 4}), array(row_of(5), {1, 1, 1, 1, 1})}, backend());
  EXPECT_EQ(to_doubles(out[0]), (Doubles{1, 3, 5, 7, 9}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{1, 2, 3, 4, 5}));
}

TEST(EmulatedProgram, ReturnsBeforeItsWorkHasRunWhereResultsStayOnTheDevice) {
  Graph g;
  g.add_output("y", ops::scale(g.add_input("x", row_of(5)), 2));
  Program program(optimized_for(backend(), g), backend());
  const OnDevice x(5), y(5);
  const std::vector<float> values = counted(5, 1);
  queue().copy(x.tensor, host_tensor(std::span(values)));
  const auto arena = backend().allocate(program.arena_bytes());
  const ConstTensorRef in[] = {x.tensor};
  const TensorRef out[] = {y.tensor};
  program.run(in, out, *arena);
  EXPECT_EQ(copy_to_host<float>(queue(), y.tensor), (std::vector<float>{2, 4, 6, 8, 10}));
}

TEST(EmulatedProgram, ProfileHasTheTimeOnTheDevice) {
  Graph g;
  g.add_output("y", ops::exp(g.add_input("x", row_of(1 << 16))));
  Program program(optimized_for(backend(), g), backend());
  program.set_profiling(true);
  run(program, backend(), {zeros(row_of(1 << 16))});
  EXPECT_NE(program.profile().find("1 calls"), std::string::npos) << program.profile();
}

}  // namespace
}  // namespace lamina::testing
