// The kernels of linear, linear_group and matmul.
#include <array>
#include <vector>

#include "backends/cuda/detailed_kernel.h"
#include "backends/cuda/gemm/few_rows_host.h"
#include "backends/cuda/gemm/fp8_products.h"
#include "backends/cuda/gemm/grouped_ops.h"
#include "backends/cuda/gemm/products.h"
#include "backends/cuda/kernel_support.h"
#include "ops/group_members.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

Verdict takes_few_rows(std::int64_t rows, DType dtype) {
  if (rows > kFewRows)
    return Verdict::no(fmt::format("streams weights for at most {} rows, got {}", kFewRows, rows));
  if (!is_fast_dtype(dtype))
    return Verdict::no("takes f32 and bf16, got " + std::string(name(dtype)));
  return Verdict::yes();
}

// For products that may have stored weights: they are widened to f32 or bf16.
Verdict takes_product(const Type& a, const Type& b, DType out) {
  if (!blas::multiplies(a.dtype, out))
    return Verdict::no(
        fmt::format("cuBLASLt does not multiply {} into {}", name(a.dtype), name(out)));
  if (b.storage && !is_fast_dtype(b.dtype))
    return Verdict::no("widens to f32 and bf16, not to " + std::string(name(b.dtype)));
  return Verdict::yes();
}

// Products over nothing are sums of nothing, which cuBLASLt does not know.
Verdict takes_depth(std::int64_t k) {
  return k > 0 ? Verdict::yes() : Verdict::no("multiplies at least one number per sum");
}

// cuBLASLt adds a bias of the result's type, before it rounds. An f32 bias is rounded to that type
// like the matrix.
Verdict takes_bias(const Type& x, const Type* bias) {
  if (!bias) return Verdict::yes();
  if ((bias->dtype != x.dtype && bias->dtype != DType::f32) || x.dtype == DType::f64)
    return Verdict::no(fmt::format(
        "adds a bias in f32 or in the result's type, to f32, bf16 or f16; got {} for {}",
        name(bias->dtype), name(x.dtype)));
  return Verdict::yes();
}

blas::ProductSpec linear_spec(const Type& x, const Type& w, bool has_bias) {
  return {.m = num_rows(x),
          .n = w.dim(0),
          .k = w.dim(1),
          .in = x.dtype,
          .out = x.dtype,
          .bias = has_bias};
}

std::optional<DType> dtype_of(const Type* type) {
  if (!type) return {};
  return type->dtype;
}

// Returns the kernel of FP8 operands, or if cuBLASLt refuses them, the one that `make` makes.
std::unique_ptr<Kernel> fp8_or(decltype(KernelChoice::make) make, const NodeView& n,
                               Context& context, std::vector<Fp8Product> products) {
  if (auto kernel = make_fp8_products(context, std::move(products))) return kernel;
  return std::make_unique<DetailedKernel>(make(n, context), "refuses, bf16 operands instead");
}

namespace linear_op {

namespace in = operand::linear;

const Type* bias_of(const NodeView& n) { return n.has(in::kBias) ? &n.type(in::kBias) : nullptr; }

Verdict supports_few(const NodeView& n) {
  return takes_few_rows(num_rows(n.type(in::kX)), n.type(in::kX).dtype);
}

std::unique_ptr<Kernel> make_few(const NodeView& n, Context& context) {
  const Type &x = n.type(in::kX), &w = n.type(in::kW);
  const FewRows product(context, {.num_rows = num_rows(x),
                                  .k = w.dim(1),
                                  .in = x.dtype,
                                  .out = x.dtype,
                                  .stored = w.storage,
                                  .matrices = {{w.dim(0), dtype_of(bias_of(n))}}});
  return make_kernel([product](const KernelArgs& args) {
    const FewRows::Operands operands = {args.inputs[in::kW], args.inputs[in::kBias],
                                        args.outputs[0]};
    product.run(args, args.inputs[in::kX], nullptr, {&operands, 1});
  });
}

Verdict supports_product(const NodeView& n) {
  const Type &x = n.type(in::kX), &w = n.type(in::kW);
  if (Verdict v = takes_depth(w.dim(1)); !v) return v;
  if (Verdict v = takes_bias(x, bias_of(n)); !v) return v;
  return takes_product(x, w, x.dtype);
}

std::unique_ptr<Kernel> make_product(const NodeView& n, Context& context) {
  const Type &x = n.type(in::kX), &w = n.type(in::kW);
  const auto product = std::make_shared<LargeProduct>(
      context, linear_spec(x, w, bias_of(n) != nullptr), w.storage, dtype_of(bias_of(n)));
  return make_kernel(
      [product](const KernelArgs& args) {
        product->run(args, args.inputs[in::kX], args.inputs[in::kW], args.inputs[in::kBias],
                     nullptr, args.outputs[0]);
      },
      product->workspace_bytes());
}

Verdict supports_fp8(const NodeView& n) {
  if (Verdict v = supports_product(n); !v) return v;
  const Type &x = n.type(in::kX), &w = n.type(in::kW);
  return takes_fp8_products(x, w, linear_spec(x, w, bias_of(n) != nullptr));
}

std::unique_ptr<Kernel> make_fp8(const NodeView& n, Context& context) {
  const Type &x = n.type(in::kX), &w = n.type(in::kW);
  return fp8_or(make_product, n, context,
                {{.spec = linear_spec(x, w, bias_of(n) != nullptr),
                  .w = in::kW,
                  .bias = in::kBias,
                  .bias_type = dtype_of(bias_of(n))}});
}

constexpr KernelChoice kChoices[] = {
    {"few rows", supports_few, make_few},
    {"cublasLt fp8", supports_fp8, make_fp8},
    {"cublasLt", supports_product, make_product},
};

}  // namespace linear_op

namespace linear_group_op {

using ops::bias_type, ops::group_members, ops::GroupMember;

Verdict supports_few(const NodeView& n) {
  return takes_few_rows(num_rows(n.type(0)), n.type(0).dtype);
}

// The matrices of one format are computed by one launch.
class FewRowsKernel final : public Kernel {
 public:
  FewRowsKernel(const NodeView& n, Context& context) : members_(group_members(n)) {
    std::vector<const formats::BlockFormat*> seen;
    for (const GroupMember& first : members_) {
      const formats::BlockFormat* stored = n.type(first.weight).storage;
      if (std::ranges::find(seen, stored) != seen.end()) continue;
      seen.push_back(stored);
      FewRowsSpec spec{.num_rows = num_rows(n.type(0)),
                       .k = n.type(0).dim(-1),
                       .in = n.type(0).dtype,
                       .out = n.type(0).dtype,
                       .stored = stored,
                       .matrices = {}};
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        const Type& w = n.type(members_[i].weight);
        if (w.storage != stored) continue;
        spec.matrices.push_back({w.dim(0), dtype_of(bias_type(n, members_[i]))});
        places.push_back(i);
      }
      products_.push_back({FewRows(context, spec), std::move(places)});
    }
    operands_.reserve(members_.size());
  }

  void run(const KernelArgs& args) override {
    for (const Product& product : products_) {
      operands_.clear();
      for (std::size_t i : product.places)
        operands_.push_back({input_of(args, members_[i].weight), input_of(args, members_[i].bias),
                             args.outputs[i]});
      product.rows.run(args, args.inputs[0], nullptr, operands_);
    }
  }

 private:
  struct Product {
    FewRows rows;
    std::vector<std::size_t> places;  // in members_
  };
  std::vector<GroupMember> members_;
  std::vector<Product> products_;
  std::vector<FewRows::Operands> operands_;
};

std::unique_ptr<Kernel> make_few(const NodeView& n, Context& context) {
  return std::make_unique<FewRowsKernel>(n, context);
}

Verdict supports_products(const NodeView& n) {
  const Type& x = n.type(0);
  if (Verdict v = takes_depth(x.dim(-1)); !v) return v;
  for (const GroupMember& m : group_members(n)) {
    if (Verdict v = takes_bias(x, bias_type(n, m)); !v) return v;
    if (Verdict v = takes_product(x, n.type(m.weight), x.dtype); !v) return v;
  }
  return Verdict::yes();
}

class ProductsKernel final : public Kernel {
 public:
  ProductsKernel(const NodeView& n, Context& context) : members_(group_members(n)) {
    for (const GroupMember& m : members_) {
      const Type& w = n.type(m.weight);
      products_.push_back(std::make_unique<LargeProduct>(
          context, linear_spec(n.type(0), w, m.bias >= 0), w.storage, dtype_of(bias_type(n, m))));
    }
  }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& product : products_) bytes = std::max(bytes, product->workspace_bytes());
    return bytes;
  }
  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < members_.size(); ++i)
      products_[i]->run(args, args.inputs[0], input_of(args, members_[i].weight),
                        input_of(args, members_[i].bias), nullptr, args.outputs[i]);
  }

 private:
  std::vector<GroupMember> members_;
  std::vector<std::unique_ptr<LargeProduct>> products_;
};

std::unique_ptr<Kernel> make_products(const NodeView& n, Context& context) {
  return std::make_unique<ProductsKernel>(n, context);
}

Verdict supports_fp8(const NodeView& n) {
  if (Verdict v = supports_products(n); !v) return v;
  for (const GroupMember& m : group_members(n)) {
    const Type &x = n.type(0), &w = n.type(m.weight);
    if (Verdict v = takes_fp8_products(x, w, linear_spec(x, w, m.bias >= 0)); !v) return v;
  }
  return Verdict::yes();
}

std::unique_ptr<Kernel> make_fp8(const NodeView& n, Context& context) {
  std::vector<Fp8Product> products;
  for (const GroupMember& m : group_members(n))
    products.push_back({.spec = linear_spec(n.type(0), n.type(m.weight), m.bias >= 0),
                        .w = m.weight,
                        .bias = m.bias,
                        .bias_type = dtype_of(bias_type(n, m))});
  return fp8_or(make_products, n, context, std::move(products));
}

constexpr KernelChoice kChoices[] = {
    {.name = "few rows", .supports = supports_few, .make = make_few, .writes_all = true},
    {.name = "cublasLt fp8", .supports = supports_fp8, .make = make_fp8, .writes_all = true},
    {.name = "cublasLt", .supports = supports_products, .make = make_products, .writes_all = true},
};

}  // namespace linear_group_op

namespace matmul_op {

namespace in = operand::matmul;

blas::ProductSpec spec_of(const NodeView& v) {
  return {.batch = product(v.out_type().shape, 0, v.out_type().ndim() - 2),
          .m = v.out_type().dim(-2),
          .n = v.out_type().dim(-1),
          .k = v.type(0).dim(v.i("transpose_a") ? -2 : -1),
          .in = v.type(0).dtype,
          .out = v.out_type().dtype,
          .a_transposed = v.i("transpose_a") != 0,
          .b_transposed = v.i("transpose_b") != 0,
          .accumulate = v.has(in::kAcc)};
}

Verdict supports_few(const NodeView& n) {
  const blas::ProductSpec s = spec_of(n);
  if (s.batch != 1 || s.a_transposed || !s.b_transposed || s.accumulate)
    return Verdict::no("computes one product of rows with rows, and adds nothing");
  return takes_few_rows(s.m, s.in);
}

std::unique_ptr<Kernel> make_few(const NodeView& n, Context& context) {
  const blas::ProductSpec s = spec_of(n);
  const FewRows product(context, {.num_rows = s.m,
                                  .k = s.k,
                                  .in = s.in,
                                  .out = s.out,
                                  .stored = n.type(1).storage,
                                  .matrices = {{s.n, {}}}});
  return make_kernel([product](const KernelArgs& args) {
    const FewRows::Operands operands = {args.inputs[1], nullptr, args.outputs[0]};
    product.run(args, args.inputs[0], nullptr, {&operands, 1});
  });
}

Verdict supports_product(const NodeView& n) {
  const blas::ProductSpec s = spec_of(n);
  if (Verdict v = takes_depth(s.k); !v) return v;
  return takes_product(n.type(0), n.type(1), s.out);
}

std::unique_ptr<Kernel> make_product(const NodeView& n, Context& context) {
  const auto product = std::make_shared<LargeProduct>(context, spec_of(n), n.type(1).storage);
  return make_kernel(
      [product](const KernelArgs& args) {
        product->run(args, args.inputs[0], args.inputs[1], nullptr, args.inputs[in::kAcc],
                     args.outputs[0]);
      },
      product->workspace_bytes());
}

Verdict supports_fp8(const NodeView& n) {
  if (Verdict v = supports_product(n); !v) return v;
  return takes_fp8_products(n.type(0), n.type(1), spec_of(n));
}

std::unique_ptr<Kernel> make_fp8(const NodeView& n, Context& context) {
  return fp8_or(make_product, n, context, {{.spec = spec_of(n), .w = 1, .addend = in::kAcc}});
}

// For other combinations of types.
std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context& context) {
  const blas::ProductSpec s = spec_of(n);
  const Function tiles = function(context, "tiles_" + std::string(name(s.in)), s.out);
  TilesParams p{.a = {},
                .b = {},
                .acc = {},
                .y = {},
                .first_tile = 0,
                .batch = s.batch,
                .m = s.m,
                .n = s.n,
                .k = s.k,
                .a_transposed = s.a_transposed,
                .b_transposed = s.b_transposed};
  return make_kernel([p, tiles](const KernelArgs& args) mutable {
    p.a = address(args.inputs[0]);
    p.b = address(args.inputs[1]);
    p.acc = address(args.inputs[in::kAcc]);
    p.y = address(args.outputs[0]);
    constexpr std::int64_t kMostBatches = 4096;
    launch_tiles(args, tiles,
                 {.blocks = divide_up(p.n, std::int64_t{kPlainTile}),
                  .threads = kPlainThreads,
                  .blocks_y = divide_up(p.m, std::int64_t{kPlainTile}),
                  .blocks_z = std::min(p.batch, kMostBatches)},
                 p);
  });
}

constexpr KernelChoice kChoices[] = {
    {"few rows", supports_few, make_few},
    {"cublasLt fp8", supports_fp8, make_fp8, in_place_of(2)},
    {"cublasLt", supports_product, make_product, in_place_of(2)},
    {"tiles", reads_plain, make_tiles, in_place_of(2)},
};

}  // namespace matmul_op

}  // namespace

KernelTable gemm_kernels() {
  static const OpKernels kOps[] = {
      {"linear", linear_op::kChoices},
      {"linear_group", linear_group_op::kChoices},
      {"matmul", matmul_op::kChoices},
      {"grouped_linear", grouped_linear_choices()},
      {"grouped_linear_dx", grouped_linear_dx_choices()},
      {"grouped_linear_dw", grouped_linear_dw_choices()},
  };
  return kOps;
}

}  // namespace lamina::cuda
