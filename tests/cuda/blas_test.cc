// Products by the fake cuBLASLt, and the rules that it checks.
#include "backends/cuda/emulation/blas.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/cuda/backend.h"
#include "backends/cuda/blas/choice_file.h"
#include "backends/cuda/blas/open.h"
#include "backends/cuda/blas/product.h"
#include "cuda/gpu_memory.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using namespace cuda::blas;
using cuda::emulation::fail_next_blas_call;

Library& library() { return gpu_context().blas(); }

// The largest error of a result, relative to 1.
double allowed_error(DType dtype) {
  return dtype == DType::f64   ? 1e-13
         : dtype == DType::f32 ? 1e-5
         : dtype == DType::f16 ? 1e-2
                               : 0.1;
}

Type matrix_type(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return {dtype, {batch, rows, columns}, {}};
}

// The operands of a product and its result in plain loops.
struct Problem {
  ProductSpec spec;
  Array a, b, bias, c;

  explicit Problem(const ProductSpec& s)
      : spec(s),
        a(random_values(
            matrix_type(s.in, s.batch, s.a_transposed ? s.k : s.m, s.a_transposed ? s.m : s.k), 1)),
        b(random_values(
            matrix_type(s.in, s.batch, s.b_transposed ? s.n : s.k, s.b_transposed ? s.k : s.n), 2)),
        bias(random_values({s.out, {s.n}, {}}, 3)),
        c(random_values(matrix_type(s.out, s.batch, s.m, s.n), 4)) {}

  std::vector<double> expected() const {
    std::vector<double> out;
    for (std::int64_t z = 0; z < spec.batch; ++z)
      for (std::int64_t i = 0; i < spec.m; ++i)
        for (std::int64_t j = 0; j < spec.n; ++j) {
          double sum = spec.bias ? get(bias, j) : 0;
          if (spec.accumulate) sum += get(c, (z * spec.m + i) * spec.n + j);
          for (std::int64_t l = 0; l < spec.k; ++l)
            sum +=
                get(a,
                    z * spec.m * spec.k + (spec.a_transposed ? l * spec.m + i : i * spec.k + l)) *
                get(b, z * spec.k * spec.n + (spec.b_transposed ? j * spec.k + l : l * spec.n + j));
          out.push_back(sum);
        }
    return out;
  }

  // `shift`: of all matrices from a multiple of 16 bytes.
  Array run(std::size_t shift = 0, bool in_place = true) const {
    return run_by(library(), shift, in_place);
  }

  Array run_by(Library& by, std::size_t shift = 0, bool in_place = true) const {
    const PreparedProduct product(by, spec);
    const GpuMemory ma(a, shift), mb(b, shift), mbias(bias), mc(c, shift);
    const GpuMemory other(c.bytes.size(), shift), workspace(product.workspace_bytes());
    const GpuMemory& d = in_place ? mc : other;
    product.run(gpu_queue().stream(), {.a = ma.address(),
                                       .b = mb.address(),
                                       .c = spec.accumulate ? mc.address() : 0,
                                       .bias = spec.bias ? mbias.address() : 0,
                                       .d = d.address(),
                                       .workspace = workspace.address()});
    return d.array(c.type);
  }

  void check(std::size_t shift = 0, bool in_place = true) const {
    const Array got = run(shift, in_place);
    const std::vector<double> want = expected();
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(get(got, static_cast<std::int64_t>(i)), want[i], allowed_error(spec.out))
          << "element " << i << " of " << name(spec.in) << " into " << name(spec.out);
  }
};

TEST(BlasProduct, MultipliesInAllLayouts) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::int64_t batch : {1, 3})
          Problem({.batch = batch,
                   .m = 5,
                   .n = 7,
                   .k = 70,
                   .in = DType::f32,
                   .out = DType::f32,
                   .a_transposed = ta,
                   .b_transposed = tb,
                   .accumulate = accumulate})
              .check();
}

TEST(BlasProduct, MultipliesAllTypes) {
  constexpr std::pair<DType, DType> kTypes[] = {
      {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32},
      {DType::f16, DType::f16}, {DType::f16, DType::f32},   {DType::f64, DType::f64}};
  for (const auto& [in, out] : kTypes) {
    EXPECT_TRUE(multiplies(in, out));
    Problem({.m = 9, .n = 17, .k = 33, .in = in, .out = out}).check();
  }
  EXPECT_FALSE(multiplies(DType::f32, DType::bf16));
  EXPECT_FALSE(multiplies(DType::f64, DType::f32));
}

TEST(BlasProduct, AddsABiasBeforeItRounds) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    Problem({.m = 9, .n = 17, .k = 33, .in = dtype, .out = dtype, .bias = true}).check();
}

TEST(BlasProduct, TakesRowsThatAreApart) {
  const ProductSpec spec{.m = 3, .n = 4, .k = 5, .in = DType::f32, .out = DType::f32};
  const Problem dense(spec);
  ProductSpec apart = spec;
  apart.lda = 8, apart.ldc = 6;
  Array a = zeros({DType::f32, {3, 8}, {}}), want = zeros({DType::f32, {3, 6}, {}});
  const Array result = dense.run();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t l = 0; l < 5; ++l) set(a, i * 8 + l, get(dense.a, i * 5 + l));
    for (std::int64_t j = 0; j < 4; ++j) set(want, i * 6 + j, get(result, i * 4 + j));
  }
  const PreparedProduct product(library(), apart);
  const GpuMemory ma(a), mb(dense.b), d(zeros(want.type));
  product.run(gpu_queue().stream(), {.a = ma.address(), .b = mb.address(), .d = d.address()});
  EXPECT_EQ(d.bytes(), want.bytes);
}

TEST(BlasProduct, AddsToSumsInAnotherPlace) {
  Problem({.m = 9, .n = 17, .k = 33, .accumulate = true}).check(0, false);
}

// An algorithm for vectors is refused by the fake cuBLASLt here.
TEST(BlasProduct, TakesOperandsThatAreNotAligned) {
  Problem({.m = 9, .n = 17, .k = 33, .accumulate = true}).check(2);
  Problem({.m = 9, .n = 17, .k = 33, .in = DType::f64, .out = DType::f64}).check(8);
}

TEST(BlasProduct, HasTheSameBitsInEachRun) {
  const Problem problem({.m = 9, .n = 17, .k = 133});
  EXPECT_EQ(problem.run().bytes, problem.run().bytes);
}

// ---- TF32

std::unique_ptr<Backend> open_gpu_with_tf32(const char* value) {
  setenv("LAMINA_GPU_TF32", value, 1);
  auto backend = cuda::open_backend(cuda::emulation::driver(), cuda::emulation::images(), 0,
                                    {.blas = cuda::emulation::blas_api}, "");
  static_cast<cuda::CudaContext&>(backend->context()).blas();
  unsetenv("LAMINA_GPU_TF32");
  return backend;
}

Library& blas_of(const Backend& backend) {
  return static_cast<cuda::CudaContext&>(backend.context()).blas();
}

TEST(BlasProduct, RoundsFloat32ToTf32OnRequestOnly) {
  // 1 + 2^-12 is no number of TF32; its neighbours are 1 and 1 + 2^-10.
  Problem problem({.m = 1, .n = 1, .k = 1, .in = DType::f32, .out = DType::f32});
  const float value = 1 + 0x1p-12f, one = 1;
  std::memcpy(problem.a.bytes.data(), &value, sizeof value);
  std::memcpy(problem.b.bytes.data(), &one, sizeof one);
  const auto with = open_gpu_with_tf32("1"), without = open_gpu_with_tf32("0");
  EXPECT_EQ(get(problem.run_by(blas_of(*with)), 0), 1.0);
  EXPECT_EQ(get(problem.run_by(blas_of(*without)), 0), 1 + 0x1p-12);
  EXPECT_EQ(get(problem.run(), 0), 1 + 0x1p-12);
}

TEST(BlasProduct, Tf32ChangesOnlyFloat32) {
  const auto with = open_gpu_with_tf32("1");
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const Problem problem({.m = 9, .n = 17, .k = 133, .in = dtype, .out = dtype});
    EXPECT_EQ(problem.run_by(blas_of(*with)).bytes, problem.run().bytes) << name(dtype);
  }
}

TEST(BlasProduct, SearchesForAnAlgorithmOncePerProblem) {
  const auto searches = [](const ProductSpec& spec) {
    const int before = cuda::emulation::blas_calls().searches;
    const PreparedProduct product(library(), spec);
    return cuda::emulation::blas_calls().searches - before;
  };
  EXPECT_EQ(searches({.m = 31, .n = 17, .k = 33}), 2);  // for vectors and for other operands
  EXPECT_EQ(searches({.m = 31, .n = 17, .k = 33}), 0);
  EXPECT_EQ(searches({.m = 31, .n = 17, .k = 33, .accumulate = true}), 2);
  EXPECT_EQ(searches({.m = 31, .n = 17, .k = 33, .out = DType::f32}), 2);
}

TEST(BlasProduct, DestroysWhatItCreates) {
  library();
  const int before = cuda::emulation::num_blas_objects();
  { const PreparedProduct product(library(), {.m = 2, .n = 3, .k = 4}); }
  EXPECT_EQ(cuda::emulation::num_blas_objects(), before);
}

TEST(BlasProduct, ReportsFailuresOfTheLibrary) {
  library();
  fail_next_blas_call("cublasLtMatmul", Status::execution_failed);
  EXPECT_ERROR_SAYS(Problem({.m = 2, .n = 3, .k = 4}).run(), ExitCode::memory,
                    "cuda: cublasLtMatmul failed: the GPU program failed to execute");
  fail_next_blas_call("cublasLtMatrixLayoutCreate", Status::alloc_failed);
  EXPECT_ERROR_SAYS(Problem({.m = 2, .n = 3, .k = 4}).run(), ExitCode::memory,
                    "cuda: cublasLtMatrixLayoutCreate failed: the resource allocation failed");
  fail_next_blas_call("cublasLtMatmulAlgoGetHeuristic", Status::not_supported);
  EXPECT_ERROR_SAYS(PreparedProduct(library(), {.m = 2, .n = 3, .k = 5, .out = DType::f32}),
                    ExitCode::memory,
                    "has no algorithm for 1 products of 2 x 3 x 5, bf16 into f32");
}

// ---- choices on the disk

constexpr ProductSpec kKept = {.m = 29, .n = 19, .k = 65};

// Prepares a product with a new context, and returns the number of searches.
int searches_with(const std::string& folder, const ProductSpec& spec = kKept) {
  const auto backend = cuda::open_backend(cuda::emulation::driver(), cuda::emulation::images(), 0,
                                          {.blas = cuda::emulation::blas_api}, folder);
  const int before = cuda::emulation::blas_calls().searches;
  const PreparedProduct product(static_cast<cuda::CudaContext&>(backend->context()).blas(), spec);
  return cuda::emulation::blas_calls().searches - before;
}

std::string only_file_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  EXPECT_EQ(files.size(), 1u);
  return files.at(0);
}

void change_byte(const std::string& file, std::int64_t from_end) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-from_end, std::ios::end);
  const int byte = stream.get();
  stream.seekp(-from_end, std::ios::end);
  stream.put(static_cast<char>(byte ^ 0x10));
}

TEST(BlasChoices, AreFoundByTheNextProcess) {
  const TempDir folder;
  EXPECT_EQ(searches_with(folder / ""), 2);
  EXPECT_EQ(searches_with(folder / ""), 0);
  EXPECT_EQ(searches_with(""), 2);
}

TEST(BlasChoices, BelongToACardADriverAndAVersion) {
  const TempDir folder;
  const ChoiceOrigin origins[] = {{"A sm_90", 13000, 130000},
                                  {"B sm_90", 13000, 130000},
                                  {"A sm_90", 13010, 130000},
                                  {"A sm_90", 13000, 130100}};
  const ProblemKey problem = {.m = 1};
  for (const ChoiceOrigin& origin : origins) {
    ChoiceFile file(folder / "", origin);
    EXPECT_TRUE(file.choices().empty());
    file.add(problem, {.workspace_bytes = 7});
  }
  for (const ChoiceOrigin& origin : origins)
    EXPECT_EQ(ChoiceFile(folder / "", origin).choices().size(), 1u);
}

TEST(BlasChoices, DamagedOnesAreMadeAgain) {
  const TempDir folder;
  searches_with(folder / "");
  const std::string file = only_file_in(folder / "");
  const auto whole = std::filesystem::file_size(file);
  change_byte(file, 20);
  EXPECT_EQ(searches_with(folder / ""), 1);
  EXPECT_EQ(searches_with(folder / ""), 0);
  std::filesystem::resize_file(file, whole - 5);  // a process was killed while it wrote
  EXPECT_EQ(searches_with(folder / ""), 1);
  EXPECT_EQ(searches_with(folder / ""), 0);
  change_byte(file, static_cast<std::int64_t>(whole));  // the head
  EXPECT_EQ(searches_with(folder / ""), 2);
  EXPECT_EQ(std::filesystem::file_size(file), whole);
}

TEST(BlasChoices, AFolderThatCannotBeWrittenIsNoError) {
  const TempDir folder;
  folder.write("taken", "");
  EXPECT_EQ(searches_with(folder / "taken"), 2);
}

TEST(BlasChoices, WorkDoesNotWaitForAStoppedProcess) {
  const TempDir folder;
  searches_with(folder / "");
  const int held = open(only_file_in(folder / "").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(searches_with(folder / ""), 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("another process has locked it"), said.npos) << said;
  close(held);
  EXPECT_EQ(searches_with(folder / ""), 0);
}

TEST(BlasChoices, ProcessesAddAtTheSameTime) {
  const TempDir folder;
  const ChoiceOrigin origin = {"A sm_90", 13000, 130000};
  constexpr int kProcesses = 4, kProblems = 50;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    const pid_t pid = fork();
    if (pid != 0) {
      children.push_back(pid);
      continue;
    }
    ChoiceFile file(folder / "", origin);
    for (int i = 0; i < kProblems; ++i) file.add({.m = child, .n = i}, {.workspace_bytes = 7});
    _exit(0);
  }
  for (const pid_t pid : children) waitpid(pid, nullptr, 0);
  EXPECT_EQ(ChoiceFile(folder / "", origin).choices().size(),
            static_cast<std::size_t>(kProcesses * kProblems));
}

TEST(BlasLibrary, SaysWhichFilesItCannotOpen) {
  constexpr const char* kFiles[] = {"libmissing.so.13", "libmissing.so.12"};
  EXPECT_ERROR_SAYS(open_api(kFiles), ExitCode::memory,
                    "cuda: cannot open cuBLASLt; expected libmissing.so.13 or libmissing.so.12");
}

TEST(BlasLibrary, IsNotOfANewerMajorVersionThanTheDriver) {
  const auto files = [](int driver) {
    const auto out = files_for(driver);
    return std::vector<std::string>(out.begin(), out.end());
  };
  const std::vector<std::string> old = {"libcublasLt.so.12"},
                                 both = {"libcublasLt.so.13", "libcublasLt.so.12"};
  EXPECT_EQ(files(12000), old);
  EXPECT_EQ(files(12090), old);
  EXPECT_EQ(files(13000), both);
}

TEST(BlasLibrary, SaysWhichFunctionIsMissing) {
  constexpr const char* kFiles[] = {"libc.so.6"};
  EXPECT_ERROR_SAYS(open_api(kFiles), ExitCode::memory,
                    "cuda: libc.so.6 has no function cublasLtCreate");
}

// Attributes have the sizes that our declarations say: the library needs no GPU to check them.
TEST(BlasLibrary, TheInstalledOneTakesOurAttributes) {
  Api api = {};
  try {
    constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                      "/usr/local/cuda/lib64/libcublasLt.so"};
    api = open_api(kFiles);
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
  const auto expect = [](Status status, const char* what) {
    EXPECT_EQ(status, Status::success) << what;
  };
  Operation operation;
  expect(api.create_operation(&operation, ComputeType::f32, DataType::r_32f), "operation");
  const auto set_operation = [&](OperationAttribute attribute, auto value) {
    expect(api.set_operation(operation, attribute, &value, sizeof value), "operation");
  };
  set_operation(OperationAttribute::transpose_a, Transpose::transposed);
  set_operation(OperationAttribute::transpose_b, Transpose::none);
  set_operation(OperationAttribute::epilogue, Epilogue::bias);
  set_operation(OperationAttribute::bias_pointer, std::uint64_t{0});
  set_operation(OperationAttribute::bias_type, DataType::r_16bf);
  set_operation(OperationAttribute::a_scale_pointer, std::uint64_t{0});
  set_operation(OperationAttribute::b_scale_pointer, std::uint64_t{0});
  if (api.version() >= kScalesOf128Since) {
    set_operation(OperationAttribute::a_scale_mode, ScaleMode::of_128_values);
    set_operation(OperationAttribute::b_scale_mode, ScaleMode::of_128_values);
  }
  expect(api.destroy_operation(operation), "operation");
  MatrixLayout layout;
  expect(api.create_layout(&layout, DataType::r_16bf, 4, 5, 8), "layout");
  const std::int32_t count = 3;
  const std::int64_t stride = 40;
  expect(api.set_layout(layout, LayoutAttribute::batch_count, &count, sizeof count), "layout");
  expect(api.set_layout(layout, LayoutAttribute::batch_stride, &stride, sizeof stride), "layout");
  expect(api.destroy_layout(layout), "layout");
  Preference preference;
  expect(api.create_preference(&preference), "preference");
  const auto set_preference = [&](PreferenceAttribute attribute, auto value) {
    expect(api.set_preference(preference, attribute, &value, sizeof value), "preference");
  };
  set_preference(PreferenceAttribute::max_workspace_bytes, std::uint64_t{1} << 20);
  set_preference(PreferenceAttribute::reduction_schemes, std::uint32_t{kReductionComputeType});
  for (int i = static_cast<int>(PreferenceAttribute::min_alignment_a);
       i <= static_cast<int>(PreferenceAttribute::min_alignment_d); ++i)
    set_preference(static_cast<PreferenceAttribute>(i), std::uint32_t{16});
  expect(api.destroy_preference(preference), "preference");
}

// A product of 4 x 4 x 4 in f32 by the functions themselves.
class RawProduct {
 public:
  RawProduct() {
    expect(api().create(&handle));
    expect(api().create_operation(&operation, ComputeType::f32, DataType::r_32f));
    expect(api().create_layout(&layout, DataType::r_32f, 4, 4, 4));
    expect(api().create_preference(&preference));
    prefer(PreferenceAttribute::max_workspace_bytes, std::uint64_t{1} << 20);
    for (int i = 5; i <= 8; ++i) prefer(static_cast<PreferenceAttribute>(i), std::uint32_t{16});
  }
  ~RawProduct() {
    for (MatrixLayout other : others_) api().destroy_layout(other);
    api().destroy_preference(preference);
    api().destroy_layout(layout);
    api().destroy_operation(operation);
    api().destroy(handle);
  }
  RawProduct(const RawProduct&) = delete;
  RawProduct& operator=(const RawProduct&) = delete;

  static const Api& api() { return cuda::emulation::blas_api(); }
  template <typename T>
  void prefer(PreferenceAttribute attribute, T value) {
    expect(api().set_preference(preference, attribute, &value, sizeof value));
  }
  MatrixLayout other_layout(std::uint64_t rows, std::uint64_t columns,
                            DataType type = DataType::r_32f) {
    MatrixLayout out;
    expect(api().create_layout(&out, type, rows, columns, static_cast<std::int64_t>(rows)));
    others_.push_back(out);
    return out;
  }
  Status search(MatrixLayout a_layout, MatrixLayout b_layout, MatrixLayout d_layout) {
    int found = 0;
    return api().candidates(handle, operation, a_layout, b_layout, d_layout, d_layout, preference,
                            1, &candidate, &found);
  }
  Status search() { return search(layout, layout, layout); }
  Status multiply(MatrixLayout a_layout, MatrixLayout b_layout) {
    const float one = 1, zero = 0;
    return api().multiply(handle, operation, &one, a, a_layout, b, b_layout, &zero, d, layout, d,
                          layout, &candidate.algorithm, workspace, workspace_bytes,
                          gpu_queue().stream());
  }
  Status multiply() { return multiply(layout, layout); }

  Handle handle = nullptr;
  Operation operation = nullptr;
  MatrixLayout layout = nullptr;
  Preference preference = nullptr;
  Candidate candidate = {};
  GpuMemory memory{3 * 64};
  void* a = memory.pointer();
  void* b = static_cast<std::byte*>(a) + 64;
  void* d = static_cast<std::byte*>(a) + 128;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;

 private:
  static void expect(Status status) { EXPECT_EQ(status, Status::success); }
  std::vector<MatrixLayout> others_;
};

void expect_refusal(Status status, const std::string& text) {
  EXPECT_EQ(status, Status::invalid_value);
  EXPECT_EQ(RawProduct::api().status_text(status), text);
}

TEST(EmulatedBlas, Example) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  EXPECT_EQ(p.multiply(), Status::success);
}

TEST(EmulatedBlas, RefusesDestroyedObjects) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  const MatrixLayout layout = p.other_layout(4, 4);
  EXPECT_EQ(p.api().destroy_layout(layout), Status::success);
  expect_refusal(p.search(layout, p.layout, p.layout), "uses a destroyed object");
  expect_refusal(p.api().destroy_layout(layout), "destroys an object that does not exist");
}

TEST(EmulatedBlas, RefusesAnAlgorithmOfAnotherProblem) {
  RawProduct p;
  EXPECT_EQ(p.search(p.other_layout(4, 8), p.other_layout(8, 4), p.layout), Status::success);
  expect_refusal(p.multiply(), "the algorithm was chosen for another problem");
}

TEST(EmulatedBlas, RefusesSizesThatDoNotFit) {
  RawProduct p;
  expect_refusal(p.search(p.other_layout(4, 5), p.layout, p.layout),
                 "the inner sizes differ: 5 and 4");
  expect_refusal(p.search(p.layout, p.layout, p.other_layout(4, 3)), "a result of 4 x 3 for 4 x 4");
  MatrixLayout narrow;
  EXPECT_EQ(p.api().create_layout(&narrow, DataType::r_32f, 4, 4, 3), Status::success);
  expect_refusal(p.search(p.layout, narrow, p.layout), "columns of 4 rows do not fit 3 apart");
  EXPECT_EQ(p.api().destroy_layout(narrow), Status::success);
}

TEST(EmulatedBlas, RefusesTypesOutsideOfTheTable) {
  RawProduct p;
  const MatrixLayout half = p.other_layout(4, 4, DataType::r_16f);
  EXPECT_EQ(p.search(half, p.other_layout(4, 4, DataType::r_16bf), half), Status::not_supported);
  EXPECT_EQ(p.search(p.layout, p.layout, half), Status::not_supported);
}

TEST(EmulatedBlas, RefusesOperandsThatAreNotAligned) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  p.b = static_cast<std::byte*>(p.b) - 4;
  expect_refusal(p.multiply(), "B is not aligned to 16 bytes, as the algorithm asks for");
}

TEST(EmulatedBlas, RefusesABiasThatIsNotAligned) {
  RawProduct p;
  const GpuMemory bias(32);
  const Epilogue epilogue = Epilogue::bias;
  p.api().set_operation(p.operation, OperationAttribute::epilogue, &epilogue, sizeof epilogue);
  EXPECT_EQ(p.search(), Status::success);
  for (const std::uint64_t at : {bias.address(), bias.address() + 4}) {
    p.api().set_operation(p.operation, OperationAttribute::bias_pointer, &at, sizeof at);
    if (at == bias.address())
      EXPECT_EQ(p.multiply(), Status::success);
    else
      expect_refusal(p.multiply(), "the bias is not aligned to 16 bytes");
  }
}

TEST(EmulatedBlas, RefusesMemoryOutsideOfAnAllocation) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  p.b = static_cast<std::byte*>(p.d) + 16;
  expect_refusal(p.multiply(), "B is outside of the memory of the GPU");
}

TEST(EmulatedBlas, RefusesAResultOverAnOperand) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  p.d = static_cast<std::byte*>(p.a) + 16;
  expect_refusal(p.multiply(), "D overlaps A");
}

TEST(EmulatedBlas, RefusesTooSmallAWorkspace) {
  RawProduct p;
  const MatrixLayout a = p.other_layout(4, 64), b = p.other_layout(64, 4);
  const GpuMemory long_a(1024), long_b(1024), parts(64);
  EXPECT_EQ(p.search(a, b, p.layout), Status::success);
  EXPECT_EQ(p.candidate.workspace_bytes, 64u);
  p.a = long_a.pointer(), p.b = long_b.pointer(), p.workspace = parts.pointer();
  p.workspace_bytes = 32;
  expect_refusal(p.multiply(a, b), "a workspace of 32 bytes; the algorithm needs 64");
  p.workspace_bytes = 64;
  EXPECT_EQ(p.multiply(a, b), Status::success);
  p.workspace = static_cast<std::byte*>(p.workspace) + 16;
  expect_refusal(p.multiply(a, b),
                 "the workspace is not aligned to 256 bytes, or outside of the GPU's memory");
}

TEST(EmulatedBlas, KeepsToTheWorkspaceThatIsPreferred) {
  RawProduct p;
  p.prefer(PreferenceAttribute::max_workspace_bytes, std::uint64_t{32});
  EXPECT_EQ(p.search(p.other_layout(4, 64), p.other_layout(64, 4), p.layout), Status::success);
  EXPECT_EQ(p.candidate.workspace_bytes, 0u);
}

TEST(EmulatedBlas, RefusesAttributesOfAnotherSize) {
  const RawProduct p;
  const std::int32_t bytes = 16;
  expect_refusal(p.api().set_preference(p.preference, PreferenceAttribute::max_workspace_bytes,
                                        &bytes, sizeof bytes),
                 "an attribute of 8 bytes is set to 4 bytes");
}

// Work of the stream before it decides its operands, not the memory at the time of the call.
TEST(EmulatedBlas, RunsAsWorkOfTheStream) {
  RawProduct p;
  EXPECT_EQ(p.search(), Status::success);
  const std::vector<float> ones(32, 1.0f);
  const Type type{DType::u8, {128}, {}};
  gpu_queue().fill(p.memory.tensor(), std::byte{0});
  EXPECT_EQ(p.multiply(), Status::success);
  gpu_queue().copy(p.memory.tensor().part(0, type), host_tensor(ones.data(), type));
  const std::vector<std::byte> bytes = p.memory.bytes();
  float first, result;
  std::memcpy(&first, bytes.data(), sizeof first);
  std::memcpy(&result, bytes.data() + 128, sizeof result);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(result, 0);
}

// Two results of the same product of 4 x 4 x 62.
std::vector<std::vector<std::byte>> results_of(std::uint32_t reduction_schemes) {
  RawProduct p;
  p.prefer(PreferenceAttribute::reduction_schemes, reduction_schemes);
  const MatrixLayout a = p.other_layout(4, 62), b = p.other_layout(62, 4);
  EXPECT_EQ(p.search(a, b, p.layout), Status::success);
  const GpuMemory long_a(random_values({DType::f32, {4, 62}, {}}, 1)),
      long_b(random_values({DType::f32, {62, 4}, {}}, 2));
  p.a = long_a.pointer(), p.b = long_b.pointer();
  std::vector<std::vector<std::byte>> results;
  for (int i = 0; i < 2; ++i) {
    const GpuMemory result(64);
    p.d = result.pointer();
    EXPECT_EQ(p.multiply(a, b), Status::success);
    results.push_back(result.bytes());
  }
  return results;
}

TEST(EmulatedBlas, SumsInPlaceDifferFromRunToRun) {
  const auto in_place = results_of(kReductionInPlace), in_order = results_of(kReductionComputeType);
  EXPECT_NE(in_place[0], in_place[1]);
  EXPECT_EQ(in_order[0], in_order[1]);
}

}  // namespace
}  // namespace lamina::testing
