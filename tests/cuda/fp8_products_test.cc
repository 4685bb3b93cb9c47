// Products of FP8 operands (LAMINA_GPU_FP8=1): the kernel that writes them, results beside the
// definition in double, the choice, and the rules of cuBLASLt's double.
#include <cmath>
#include <cstring>

#include "backends/cuda/backend.h"
#include "backends/cuda/blas/product.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/grid.h"
#include "backends/cuda/gemm/fp8_operand.h"
#include "core/float16.h"
#include "cuda/fp8_switch.h"
#include "cuda/gpu_memory.h"
#include "formats/fp8.h"
#include "formats/row_formats.h"
#include "graph/call.h"
#include "ops/registry.h"
#include "runtime/program.h"
#include "support/expect_error.h"
#include "support/stored_blocks.h"

namespace lamina::testing {
namespace {

using namespace cuda::blas;
using cuda::Fp8Operand;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kGroup = 128;

std::size_t to_size(std::int64_t i) { return static_cast<std::size_t>(i); }

const formats::BlockFormat& fp8() { return *formats::fp8_format(kGroup); }

// 128 values as the definition rounds them: the scale, then the numbers.
Bytes rounded_group(const float* values) {
  Bytes out(kGroup + formats::kRowScaleBytes);
  formats::narrow_row(*formats::row_format(formats::RowNumbers::e4m3, kGroup), values, out.data());
  return out;
}

float scale_in(const std::byte* block) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  return scale;
}

// An operand [rows, width] in the memory of the GPU.
struct Written {
  std::int64_t rows, padded, width;
  Bytes bytes;
  std::size_t scales_at;

  Bytes numbers(std::int64_t row, std::int64_t group) const {
    const auto from = bytes.begin() + row * width + group * kGroup;
    return {from, from + kGroup};
  }
  float scale(std::int64_t row, std::int64_t group) const {
    return scale_in(bytes.data() + scales_at + to_size(group * padded + row) * sizeof(float));
  }
};

Written written(Fp8Operand::Source source, const Bytes& x, std::int64_t rows, std::int64_t width,
                std::size_t shift = 0) {
  const Fp8Operand operand(gpu_context(), source, rows, width);
  const GpuMemory from(x, shift), to(operand.bytes());
  auto* const at = static_cast<std::byte*>(to.pointer());
  operand.write({.inputs = {}, .outputs = {}, .queue = &gpu_queue()}, from.pointer(), rows, at);
  return {rows, Fp8Operand::padded(rows), width, to.bytes(),
          static_cast<std::size_t>(operand.scales(at) - at)};
}

// Groups of rows in bf16 with all kinds of magnitudes.
Array all_kinds(std::int64_t rows, std::int64_t width) {
  Array x = random_values({DType::bf16, {rows, width}, {}}, 1);
  const auto group = [&](std::int64_t row, double factor) {
    for (std::int64_t i = 0; i < kGroup; ++i)
      set(x, row * width + i, factor * get(x, row * width + i));
  };
  group(0, 0);
  group(1, 0x1p-130);  // subnormal values, and a scale that would be subnormal
  group(2, 0x1p-117);  // a small scale, beside values that become 0
  group(3, 0x1p+120);
  set(x, 4 * width + 5, std::numeric_limits<double>::infinity());
  set(x, 5 * width + 127, std::numeric_limits<double>::quiet_NaN());
  set(x, 6 * width, 0x1p-133);  // the smallest number beside usual ones
  set(x, 7 * width + 1, -static_cast<double>(0x1.fep+127f));  // the largest
  return x;
}

TEST(Fp8OperandOfTheGpu, RoundsRowsByTheDefinition) {
  const std::int64_t rows = 19, width = 384;
  const Array x = all_kinds(rows, width);
  for (const std::size_t shift : {0, 2}) {
    const Written got = written(Fp8Operand::Source::bf16_rows, x.bytes, rows, width, shift);
    ASSERT_EQ(got.padded, 32);
    for (std::int64_t row = 0; row < got.padded; ++row)
      for (std::int64_t g = 0; g < width / kGroup; ++g) {
        SCOPED_TRACE(::testing::Message() << "row " << row << ", group " << g);
        Bytes want(kGroup + formats::kRowScaleBytes);
        if (row < rows) {
          std::array<float, kGroup> values;
          for (std::int64_t i = 0; i < kGroup; ++i)
            values[to_size(i)] = static_cast<float>(get(x, row * width + g * kGroup + i));
          want = rounded_group(values.data());
        }
        const float scale = got.scale(row, g);
        EXPECT_EQ(std::memcmp(&scale, want.data(), sizeof scale), 0);
        EXPECT_EQ(got.numbers(row, g), Bytes(want.begin() + 4, want.end()));
      }
  }
}

// The definition in double: scale = a / 448, and each value is rounded to a number of 4 significant
// bits, or to a multiple of 2^-9, times the scale.
TEST(Fp8OperandOfTheGpu, RoundsToNearest) {
  const std::int64_t rows = 16, width = 256;
  const Array x = all_kinds(rows, width);
  const Written got = written(Fp8Operand::Source::bf16_rows, x.bytes, rows, width);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t g = 0; g < width / kGroup; ++g) {
      double largest = 0;
      bool is_finite = true;
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const double value = get(x, row * width + g * kGroup + i);
        largest = std::max(largest, std::abs(value));
        is_finite = is_finite && std::isfinite(value);
      }
      const double scale = got.scale(row, g);
      ASSERT_EQ(std::isfinite(scale), is_finite) << "row " << row;
      if (!is_finite) continue;
      const bool is_zero = largest / 448 < 0x1p-126;
      EXPECT_NEAR(scale, is_zero ? 0 : largest / 448, 0x1p-24 * largest / 448);
      const Bytes numbers = got.numbers(row, g);
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const double value = get(x, row * width + g * kGroup + i),
                     number = formats::kE4m3[static_cast<std::uint8_t>(numbers[to_size(i)])];
        const double most =
            is_zero ? largest : std::max(std::abs(value) * 0x1p-4, scale * 0x1p-10) * (1 + 0x1p-20);
        ASSERT_NEAR(number * scale, value, most) << "row " << row << ", value " << i;
      }
    }
}

TEST(Fp8OperandOfTheGpu, KeepsTheValuesOfBlocks) {
  const std::int64_t rows = 32, width = 384;
  const Bytes blocks = random_blocks(fp8(), rows * width, 4);
  const Written got = written(Fp8Operand::Source::fp8_blocks, blocks, rows, width);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t g = 0; g < width / kGroup; ++g) {
      const auto block = blocks.begin() + (row * width / kGroup + g) * fp8().num_bytes;
      EXPECT_EQ(got.scale(row, g), scale_in(&*block));
      EXPECT_EQ(got.numbers(row, g), Bytes(block + 4, block + fp8().num_bytes));
    }
}

// ---- products

// Weights [n, k] in FP8.
Bytes weights(std::int64_t n, std::int64_t k, unsigned seed) {
  Bytes out = random_blocks(fp8(), n * k, seed, 0x1p-10f);
  remove_nans(fp8(), out);
  return out;
}

// Gives the scales the pattern of a published scheme.
enum class Scheme { blocks_of_128_x_128, rows, tensor };
void set_scheme(Bytes& weights, std::int64_t k, Scheme scheme) {
  const auto in_row = to_size(k / kGroup);
  for (std::size_t i = 0; i < weights.size() / to_size(fp8().num_bytes); ++i) {
    const std::size_t row = i / in_row, like = scheme == Scheme::tensor ? 0
                                               : scheme == Scheme::rows
                                                   ? row * in_row
                                                   : row / 128 * 128 * in_row + i % in_row;
    std::memcpy(weights.data() + i * to_size(fp8().num_bytes),
                weights.data() + like * to_size(fp8().num_bytes), sizeof(float));
  }
}

// One op: x in bf16, stored weights, then a bias or an addend.
struct Fp8Problem {
  std::string op = "linear";
  std::int64_t rows = 37, n = 48, k = 384;
  bool bias = false;       // linear, and the first matrix of a group
  bool addend = false;     // matmul
  std::string dtype = {};  // of the result of matmul
  Scheme scheme = Scheme::rows;
  int matrices = 1;
  const formats::BlockFormat* stored = &fp8();
  DType x_dtype = DType::bf16;
  bool b_transposed = true;

  Type out_type() const { return {dtype == "f32" ? DType::f32 : x_dtype, {rows, n}, {}}; }
  Type w_type() const {
    const Type type{x_dtype, b_transposed ? Shape{{n, k}} : Shape{{k, n}}, {}};
    return stored ? type.stored_as(stored) : type;
  }
  std::vector<Array> inputs() const {
    std::vector<Array> out = {random_values({x_dtype, {rows, k}, {}}, 1)};
    for (int i = 0; i < matrices; ++i) {
      Array w = zeros(w_type());
      if (stored == &fp8()) {
        w.bytes = weights(n, k, 2 + static_cast<unsigned>(i));
        set_scheme(w.bytes, k, scheme);
      }
      out.push_back(std::move(w));
    }
    if (bias) out.push_back(random_values({x_dtype, {n}, {}}, 8));
    if (addend) out.push_back(random_values(out_type(), 9));
    return out;
  }
  Graph graph() const {
    Graph g;
    std::vector<Tensor> operands;
    for (const Array& array : inputs()) operands.push_back(g.add_input("in", array.type));
    std::vector<std::pair<std::string_view, AttrValue>> attrs;
    if (op == "matmul") attrs = {{"transpose_b", std::int64_t{b_transposed}}, {"dtype", dtype}};
    if (op == "linear_group") {
      std::vector<std::int64_t> biases(to_size(matrices));
      biases[0] = bias;
      attrs = {{"biases", biases}};
    }
    for (const Tensor& y : g.add_node(ops::get(op), operands, attrs)) g.add_output("y", y);
    return g;
  }
};

struct Chosen {
  std::string kernel, refusal;  // why it is not "cublasLt fp8"
};
Chosen chosen_for(const Fp8Problem& problem, const Backend& gpu = test_gpu()) {
  const Graph graph = problem.graph();
  std::vector<Refusal> refusals;
  const KernelChoice* const choice =
      with_node_view(graph, graph.nodes().back(),
                     [&](const NodeView& view) { return choose_kernel(gpu, view, &refusals); });
  Chosen out{std::string(choice->name), ""};
  for (const Refusal& refusal : refusals)
    if (refusal.kernel == "cublasLt fp8") out.refusal = refusal.why;
  return out;
}

std::vector<Array> run(const Fp8Problem& problem) {
  Program program(problem.graph(), test_gpu());
  const auto arena = test_gpu().allocate(program.arena_bytes());
  const std::vector<Array> inputs = problem.inputs();
  std::vector<Array> out(to_size(problem.matrices), zeros(problem.out_type()));
  std::vector<ConstTensorRef> from;
  std::vector<TensorRef> to;
  for (const Array& array : inputs) from.push_back(host_tensor(array.data(), array.type));
  for (Array& array : out) to.push_back(host_tensor(array.data(), array.type));
  program.run(from, to, *arena);
  return out;
}

// Rows of x as the definition rounds them.
std::vector<double> rounded(const Array& x) {
  std::vector<double> out;
  for (std::int64_t first = 0; first < x.type.num_elements(); first += kGroup) {
    std::array<float, kGroup> values;
    for (std::int64_t i = 0; i < kGroup; ++i)
      values[to_size(i)] = static_cast<float>(get(x, first + i));
    const Bytes group = rounded_group(values.data());
    for (std::int64_t i = 0; i < kGroup; ++i)
      out.push_back(
          static_cast<double>(scale_in(group.data())) *
          static_cast<double>(formats::kE4m3[static_cast<std::uint8_t>(group[to_size(4 + i)])]));
  }
  return out;
}

std::vector<double> values_in(const Bytes& blocks) {
  std::vector<double> out;
  std::array<float, kGroup> values;
  for (std::size_t at = 0; at < blocks.size(); at += to_size(fp8().num_bytes)) {
    fp8().widen(blocks.data() + at, values.data());
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

void expect_definition(const Fp8Problem& p) {
  const Fp8Switch on("1");
  ASSERT_EQ(chosen_for(p).kernel, "cublasLt fp8") << chosen_for(p).refusal;
  const std::vector<Array> inputs = p.inputs(), got = run(p);
  const std::vector<double> x = rounded(inputs[0]);
  for (int matrix = 0; matrix < p.matrices; ++matrix) {
    const std::vector<double> w = values_in(inputs[to_size(1 + matrix)].bytes);
    const Array& y = got[to_size(matrix)];
    const double unit = y.type.dtype == DType::f32 ? 0x1p-24 : 0x1p-8;
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t o = 0; o < p.n; ++o) {
        double sum = 0, magnitude = 0;
        const auto add = [&](double term) { sum += term, magnitude += std::abs(term); };
        if (p.bias && matrix == 0) add(get(inputs.back(), o));
        if (p.addend) add(get(inputs.back(), r * p.n + o));
        for (std::int64_t i = 0; i < p.k; ++i)
          add(x[to_size(r * p.k + i)] * w[to_size(o * p.k + i)]);
        // Hopper adds products of FP8 operands with 14 bits (arXiv 2412.19437, 3.3.2): each of the
        // 32 terms of an instruction may lose 2^-13 of the largest one, or of the sum so far. An
        // H200 lost at least 2^-10.8 of the terms.
        ASSERT_NEAR(get(y, r * p.n + o), sum, 0x1p-10 * magnitude + unit * std::abs(sum))
            << "row " << r << ", output " << o << " of matrix " << matrix;
      }
  }
}

// Skips a test where a real GPU or its library cannot multiply FP8.
#define SKIP_WITHOUT_FP8()                                             \
  {                                                                    \
    const Fp8Switch on("1");                                           \
    if (const Chosen chosen = chosen_for({}); !chosen.refusal.empty()) \
      GTEST_SKIP() << chosen.refusal;                                  \
  }

TEST(Fp8ProductsOfTheGpu, HaveTheValuesOfTheDefinition) {
  SKIP_WITHOUT_FP8();
  for (const std::int64_t rows : {9, 16, 37}) expect_definition({.rows = rows});
  expect_definition({.n = 272, .k = 256, .scheme = Scheme::blocks_of_128_x_128});
  expect_definition({.k = 128, .scheme = Scheme::tensor});
  expect_definition({.bias = true});
  expect_definition({.op = "matmul", .rows = 16});
  expect_definition({.op = "matmul", .addend = true, .dtype = "f32"});
  expect_definition({.op = "matmul", .rows = 16, .addend = true});
  expect_definition({.op = "linear_group", .bias = true, .matrices = 3});
}

// A panel of the weights has 128 rows here.
TEST(Fp8ProductsOfTheGpu, TakePanelAfterPanel) {
  SKIP_WITHOUT_FP8();
  expect_definition({.rows = 9, .n = 144, .k = 131200});
}

TEST(Fp8ProductsOfTheGpu, ARowThatIsNotFiniteChangesNoOther) {
  SKIP_WITHOUT_FP8();
  const Fp8Switch on("1");
  const Fp8Problem p{.rows = 17};
  const Graph graph = p.graph();
  Program program(graph, test_gpu());
  const auto arena = test_gpu().allocate(program.arena_bytes());
  std::vector<Array> inputs = p.inputs();
  set(inputs[0], 3 * p.k + 200, std::numeric_limits<double>::infinity());
  Array y = zeros(p.out_type());
  const ConstTensorRef from[] = {host_tensor(inputs[0].data(), inputs[0].type),
                                 host_tensor(inputs[1].data(), inputs[1].type)};
  const TensorRef to[] = {host_tensor(y.data(), y.type)};
  program.run(from, to, *arena);
  const std::vector<Array> want = run(p);
  for (std::int64_t i = 0; i < y.type.num_elements(); ++i) {
    if (i / p.n == 3)
      EXPECT_TRUE(std::isnan(get(y, i))) << i;
    else
      EXPECT_EQ(get(y, i), get(want[0], i)) << i;
  }
}

TEST(Fp8Products, AreUsedOnRequestOnly) {
  const Fp8Problem p;
  const Chosen without = chosen_for(p);
  EXPECT_EQ(without.kernel, "cublasLt");
  EXPECT_EQ(without.refusal, "rounds activations to FP8, with LAMINA_GPU_FP8=1 only");
  const Bytes plain = run(p)[0].bytes;
  {
    const Fp8Switch off("0");
    EXPECT_EQ(chosen_for(p).kernel, "cublasLt");
    EXPECT_EQ(run(p)[0].bytes, plain);
  }
  const Fp8Switch on("1");
  EXPECT_NE(run(p)[0].bytes, plain);
  EXPECT_EQ(run(p)[0].bytes, run(p)[0].bytes);
}

TEST(Fp8Products, SayWhyTheyAreNotUsed) {
  const Fp8Switch on("1");
  const auto expect_refusal = [](const Fp8Problem& p, std::string_view why) {
    EXPECT_EQ(chosen_for(p).refusal, why);
    EXPECT_EQ(chosen_for(p).kernel, "cublasLt");
  };
  expect_refusal({.x_dtype = DType::f32}, "takes activations in bf16, got f32");
  expect_refusal({.stored = nullptr}, "takes weights that are stored in FP8, got bf16[48, 384]");
  expect_refusal({.stored = formats::fp8_format(32)},
                 "takes weights that are stored in FP8, got bf16[48, 384] in FP8_32");
  expect_refusal({.n = 40}, "takes multiples of 16 outputs, got 40");
  expect_refusal({.op = "matmul", .n = 128, .b_transposed = false}, "multiplies rows with rows");
  EXPECT_EQ(chosen_for({.rows = 8}).kernel, "few rows");
}

TEST(Fp8Products, NeedALibraryWithScalesOf128Values) {
  const Fp8Switch on("1");
  const cuda::emulation::BlasVersion old(120803);
  EXPECT_EQ(chosen_for({}).refusal, "needs cuBLASLt 12.9 or newer, got 12.8");
}

TEST(Fp8Products, NeedCapability90OfAllGpus) {
  const Fp8Switch on("1");
  EXPECT_EQ(chosen_for({}).kernel, "cublasLt fp8");
  const int before = cuda::emulation::capability();
  cuda::emulation::set_capability(89);
  const auto other = cuda::emulation::open_emulated_gpu();
  cuda::emulation::set_capability(before);
  EXPECT_EQ(chosen_for({}).refusal, "needs GPUs of compute capability 9.0, got 8.9");
}

// The result then has the bits of the product without the switch.
TEST(Fp8Products, AreLeftToBf16IfTheLibraryHasNoAlgorithm) {
  const Fp8Problem p{.rows = 19, .n = 80};
  const Bytes plain = run(p)[0].bytes;
  const Fp8Switch on("1");
  cuda::emulation::fail_next_blas_call("cublasLtMatmulAlgoGetHeuristic", Status::not_supported);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(p)[0].bytes, plain);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "has no algorithm for 1 products of 32 x 80 x 384, f8_e4m3 into bf16; the product "
                "has operands in bf16 instead"),
            std::string::npos);
}

// Four nodes, because a graph has at least four kernel calls.
TEST(Fp8Products, AreReplayedInAGraph) {
  constexpr int kNodes = 4, kRuns = 4;
  const Fp8Switch on("1");
  const Fp8Problem p{.rows = 20, .n = 128, .k = 128};
  const std::vector<Array> inputs = p.inputs();
  Graph graph;
  Tensor x = graph.add_input("x", inputs[0].type);
  const Tensor w = graph.add_input("w", inputs[1].type);
  for (int i = 0; i < kNodes; ++i)
    x = graph.add_node(ops::get("linear"), std::vector<Tensor>{x, w}, {})[0];
  graph.add_output("y", x);
  Program program(graph, test_gpu());
  const auto arena = test_gpu().allocate(program.arena_bytes());
  const std::int64_t replays = cuda::emulation::driver_counts().replays;
  Bytes first;
  for (int run = 0; run < kRuns; ++run) {
    Array y = zeros(p.out_type());
    const ConstTensorRef from[] = {host_tensor(inputs[0].data(), inputs[0].type),
                                   host_tensor(inputs[1].data(), inputs[1].type)};
    const TensorRef to[] = {host_tensor(y.data(), y.type)};
    program.run(from, to, *arena);
    if (run == 0) first = y.bytes;
    EXPECT_EQ(y.bytes, first);
  }
  EXPECT_EQ(cuda::emulation::driver_counts().replays - replays, kRuns - 1);
}

constexpr ProductSpec kFp8Spec = {.m = 16, .n = 32, .k = 256, .in = DType::f8_e4m3};

TEST(Fp8Products, SearchForASeparateAlgorithm) {
  const auto searches = [](const ProductSpec& spec) {
    const int before = cuda::emulation::blas_calls().searches;
    const PreparedProduct product(gpu_context().blas(), spec);
    return cuda::emulation::blas_calls().searches - before;
  };
  ProductSpec plain = kFp8Spec;
  plain.in = DType::bf16;
  EXPECT_EQ(searches(plain), 2);
  EXPECT_EQ(searches(kFp8Spec), 1);  // for vectors only
  EXPECT_EQ(searches(kFp8Spec), 0);
}

// ---- the fake cuBLASLt

// A product of kFp8Spec by the functions themselves.
struct RawFp8 {
  RawFp8() {
    api().create(&handle);
    api().create_operation(&operation, ComputeType::f32, DataType::r_32f);
    api().create_layout(&a, DataType::r_8f_e4m3, 256, 32, 256);
    api().create_layout(&b, DataType::r_8f_e4m3, 256, 16, 256);
    api().create_layout(&d, DataType::r_16bf, 32, 16, 32);
    api().create_preference(&preference);
    for (int i = 5; i <= 8; ++i) {
      const std::uint32_t alignment = 16;
      api().set_preference(preference, static_cast<PreferenceAttribute>(i), &alignment, 4);
    }
    set(OperationAttribute::transpose_a, Transpose::transposed);
    set(OperationAttribute::a_scale_mode, ScaleMode::of_128_values);
    set(OperationAttribute::b_scale_mode, ScaleMode::of_128_values);
    set(OperationAttribute::a_scale_pointer, scales.address());
    set(OperationAttribute::b_scale_pointer, scales.address());
  }
  ~RawFp8() {
    for (const MatrixLayout layout : {a, b, d}) api().destroy_layout(layout);
    api().destroy_preference(preference);
    api().destroy_operation(operation);
    api().destroy(handle);
  }
  RawFp8(const RawFp8&) = delete;
  RawFp8& operator=(const RawFp8&) = delete;

  static const Api& api() { return cuda::emulation::blas_api(); }
  template <typename T>
  Status set(OperationAttribute attribute, T value) {
    return api().set_operation(operation, attribute, &value, sizeof value);
  }
  void expect(Status status, Status wanted, const char* text) {
    EXPECT_EQ(status, wanted);
    if (wanted != Status::success) {
      EXPECT_STREQ(api().status_text(status), text);
    }
  }
  Status search() {
    int found = 0;
    return api().candidates(handle, operation, a, b, d, d, preference, 1, &candidate, &found);
  }
  Status multiply() {
    const float one = 1, zero = 0;
    return api().multiply(handle, operation, &one, numbers.pointer(), a, numbers.pointer(), b,
                          &zero, result.pointer(), d, result.pointer(), d, &candidate.algorithm,
                          nullptr, 0, gpu_queue().stream());
  }

  Handle handle = nullptr;
  Operation operation = nullptr;
  MatrixLayout a = nullptr, b = nullptr, d = nullptr;
  Preference preference = nullptr;
  Candidate candidate = {};
  GpuMemory numbers{32 * 256}, scales{2 * 32 * 4}, result{32 * 16 * 2};
};

TEST(EmulatedBlasFp8, Example) {
  RawFp8 p;
  EXPECT_EQ(p.search(), Status::success);
  EXPECT_EQ(p.multiply(), Status::success);
}

TEST(EmulatedBlasFp8, RefusesOtherLayoutsModesAndSizes) {
  RawFp8 p;
  const auto refuses = [&](const char* text) { p.expect(p.search(), Status::not_supported, text); };
  p.set(OperationAttribute::b_scale_mode, ScaleMode::one);
  refuses("FP8 operands without scales of 128 values");
  p.set(OperationAttribute::b_scale_mode, ScaleMode::of_128_values);
  const std::uint32_t alignment = 8;
  p.api().set_preference(p.preference, PreferenceAttribute::min_alignment_b, &alignment, 4);
  refuses("FP8 operands that are not aligned to 16 bytes");
  MatrixLayout small = nullptr;
  std::swap(small, p.b);
  p.api().create_layout(&p.b, DataType::r_8f_e4m3, 256, 16, 264);
  refuses("a size of 264; FP8 needs multiples of 16");
  p.api().destroy_layout(p.b);
  p.api().create_layout(&p.b, DataType::r_16bf, 256, 16, 256);
  refuses("a combination of FP8 types that is not in the table");
  p.api().destroy_layout(small);
}

TEST(EmulatedBlasFp8, RefusesAnotherOrderOfOperands) {
  RawFp8 p;
  p.api().destroy_layout(p.a);
  p.api().create_layout(&p.a, DataType::r_8f_e4m3, 32, 256, 32);
  p.set(OperationAttribute::transpose_a, Transpose::none);
  p.expect(p.search(), Status::not_supported,
           "FP8 operands that are not multiplied along their rows");
}

TEST(EmulatedBlasFp8, RefusesOtherCardsAndVersions) {
  RawFp8 p;
  const int before = cuda::emulation::capability();
  cuda::emulation::set_capability(89);
  p.expect(p.search(), Status::not_supported, "scales of 128 values need compute capability 9.0");
  cuda::emulation::set_capability(before);
  const cuda::emulation::BlasVersion old(120800);
  p.expect(p.set(OperationAttribute::a_scale_mode, ScaleMode::of_128_values), Status::invalid_value,
           "operations have no attribute 31");
}

TEST(EmulatedBlasFp8, RefusesScalesThatCannotBeRead) {
  RawFp8 p;
  ASSERT_EQ(p.search(), Status::success);
  const auto refuses = [&](std::uint64_t scales, const char* text) {
    p.set(OperationAttribute::b_scale_pointer, scales);
    p.expect(p.multiply(), Status::invalid_value, text);
  };
  refuses(0, "the scales are missing, or not aligned to 16 bytes");
  refuses(p.scales.address() + 4, "the scales are missing, or not aligned to 16 bytes");
  refuses(p.scales.address() + 192, "the scales are outside of the memory of the GPU, or in D");
  refuses(p.result.address(), "the scales are outside of the memory of the GPU, or in D");
}

TEST(EmulatedBlasFp8, RefusesScalesOfOtherTypes) {
  RawFp8 p;
  for (MatrixLayout* layout : {&p.a, &p.b}) {
    p.api().destroy_layout(*layout);
    p.api().create_layout(layout, DataType::r_16bf, 256, layout == &p.a ? 32 : 16, 256);
  }
  p.expect(p.search(), Status::not_supported, "operands other than FP8 have no scales");
}

}  // namespace
}  // namespace lamina::testing
