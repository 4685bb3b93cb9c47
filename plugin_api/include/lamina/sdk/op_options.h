// Generated from ops.def; `ninja sdk_options_update` writes it again.
//
// LAMINA_<OP>_OPTIONS: the attributes of an op as members of a struct, with the defaults of
// ops.def. <op>_attrs(options): the attributes of any struct with these members.
#pragma once

// clang-format off
#include "lamina/sdk/emit.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

#define LAMINA_SCALE_OPTIONS \
  double by = 1;
template <class Options>
Attrs<Op::scale> scale_attrs(const Options& o) {
  Attrs<Op::scale> attrs;
  attrs
      .number("by", o.by);
  return attrs;
}

#define LAMINA_SHIFT_OPTIONS \
  double by = 0;
template <class Options>
Attrs<Op::shift> shift_attrs(const Options& o) {
  Attrs<Op::shift> attrs;
  attrs
      .number("by", o.by);
  return attrs;
}

#define LAMINA_CAST_OPTIONS \
  std::string_view dtype = "";
template <class Options>
Attrs<Op::cast> cast_attrs(const Options& o) {
  Attrs<Op::cast> attrs;
  attrs
      .text("dtype", o.dtype);
  return attrs;
}

#define LAMINA_RANDOM_OPTIONS \
  std::vector<std::int64_t> shape = {};
template <class Options>
Attrs<Op::random> random_attrs(const Options& o) {
  Attrs<Op::random> attrs;
  attrs
      .integers("shape", o.shape);
  return attrs;
}

#define LAMINA_RESHAPE_OPTIONS \
  std::vector<std::int64_t> shape = {};
template <class Options>
Attrs<Op::reshape> reshape_attrs(const Options& o) {
  Attrs<Op::reshape> attrs;
  attrs
      .integers("shape", o.shape);
  return attrs;
}

#define LAMINA_TRANSPOSE_OPTIONS \
  std::vector<std::int64_t> perm = {};
template <class Options>
Attrs<Op::transpose> transpose_attrs(const Options& o) {
  Attrs<Op::transpose> attrs;
  attrs
      .integers("perm", o.perm);
  return attrs;
}

#define LAMINA_SLICE_OPTIONS \
  std::int64_t dim = 0; \
  std::int64_t start = 0; \
  std::int64_t size = 0;
template <class Options>
Attrs<Op::slice> slice_attrs(const Options& o) {
  Attrs<Op::slice> attrs;
  attrs
      .integer("dim", o.dim)
      .integer("start", o.start)
      .integer("size", o.size);
  return attrs;
}

#define LAMINA_CONCAT_OPTIONS \
  std::int64_t dim = 0;
template <class Options>
Attrs<Op::concat> concat_attrs(const Options& o) {
  Attrs<Op::concat> attrs;
  attrs
      .integer("dim", o.dim);
  return attrs;
}

#define LAMINA_BROADCAST_OPTIONS \
  std::vector<std::int64_t> shape = {};
template <class Options>
Attrs<Op::broadcast> broadcast_attrs(const Options& o) {
  Attrs<Op::broadcast> attrs;
  attrs
      .integers("shape", o.shape);
  return attrs;
}

#define LAMINA_CONSTANT_OPTIONS \
  std::vector<std::int64_t> shape = {}; \
  std::string_view dtype = "f32"; \
  double value = 0;
template <class Options>
Attrs<Op::constant> constant_attrs(const Options& o) {
  Attrs<Op::constant> attrs;
  attrs
      .integers("shape", o.shape)
      .text("dtype", o.dtype)
      .number("value", o.value);
  return attrs;
}

#define LAMINA_IOTA_OPTIONS \
  std::vector<std::int64_t> shape = {}; \
  std::string_view dtype = "i32"; \
  std::int64_t dim = 0;
template <class Options>
Attrs<Op::iota> iota_attrs(const Options& o) {
  Attrs<Op::iota> attrs;
  attrs
      .integers("shape", o.shape)
      .text("dtype", o.dtype)
      .integer("dim", o.dim);
  return attrs;
}

#define LAMINA_PAD_OPTIONS \
  std::int64_t dim = 0; \
  std::int64_t before = 0; \
  std::int64_t after = 0;
template <class Options>
Attrs<Op::pad> pad_attrs(const Options& o) {
  Attrs<Op::pad> attrs;
  attrs
      .integer("dim", o.dim)
      .integer("before", o.before)
      .integer("after", o.after);
  return attrs;
}

#define LAMINA_DIM_SIZE_OPTIONS \
  std::int64_t dim = 0;
template <class Options>
Attrs<Op::dim_size> dim_size_attrs(const Options& o) {
  Attrs<Op::dim_size> attrs;
  attrs
      .integer("dim", o.dim);
  return attrs;
}

#define LAMINA_CONSTANT_DATA_OPTIONS \
  std::vector<std::int64_t> shape = {}; \
  std::string_view dtype = "f32"; \
  std::vector<double> values = {};
template <class Options>
Attrs<Op::constant_data> constant_data_attrs(const Options& o) {
  Attrs<Op::constant_data> attrs;
  attrs
      .integers("shape", o.shape)
      .text("dtype", o.dtype)
      .numbers("values", o.values);
  return attrs;
}

#define LAMINA_GATHER_OPTIONS \
  std::int64_t dim = 0;
template <class Options>
Attrs<Op::gather> gather_attrs(const Options& o) {
  Attrs<Op::gather> attrs;
  attrs
      .integer("dim", o.dim);
  return attrs;
}

#define LAMINA_SCATTER_OPTIONS \
  std::int64_t dim = 0; \
  std::int64_t size = 0;
template <class Options>
Attrs<Op::scatter> scatter_attrs(const Options& o) {
  Attrs<Op::scatter> attrs;
  attrs
      .integer("dim", o.dim)
      .integer("size", o.size);
  return attrs;
}

#define LAMINA_REDUCE_SUM_OPTIONS \
  std::vector<std::int64_t> dims = {}; \
  bool keep = false; \
  std::string_view dtype = "";
template <class Options>
Attrs<Op::reduce_sum> reduce_sum_attrs(const Options& o) {
  Attrs<Op::reduce_sum> attrs;
  attrs
      .integers("dims", o.dims)
      .flag("keep", o.keep)
      .text("dtype", o.dtype);
  return attrs;
}

#define LAMINA_REDUCE_MAX_OPTIONS \
  std::vector<std::int64_t> dims = {}; \
  bool keep = false;
template <class Options>
Attrs<Op::reduce_max> reduce_max_attrs(const Options& o) {
  Attrs<Op::reduce_max> attrs;
  attrs
      .integers("dims", o.dims)
      .flag("keep", o.keep);
  return attrs;
}

#define LAMINA_MATMUL_OPTIONS \
  bool transpose_a = false; \
  bool transpose_b = false; \
  std::string_view dtype = "";
template <class Options>
Attrs<Op::matmul> matmul_attrs(const Options& o) {
  Attrs<Op::matmul> attrs;
  attrs
      .flag("transpose_a", o.transpose_a)
      .flag("transpose_b", o.transpose_b)
      .text("dtype", o.dtype);
  return attrs;
}

#define LAMINA_TOP_K_OPTIONS \
  std::int64_t k = 1;
template <class Options>
Attrs<Op::top_k> top_k_attrs(const Options& o) {
  Attrs<Op::top_k> attrs;
  attrs
      .integer("k", o.k);
  return attrs;
}

#define LAMINA_SCATTER_ALONG_OPTIONS \
  std::int64_t size = 0;
template <class Options>
Attrs<Op::scatter_along> scatter_along_attrs(const Options& o) {
  Attrs<Op::scatter_along> attrs;
  attrs
      .integer("size", o.size);
  return attrs;
}

#define LAMINA_REDUCE_MEAN_OPTIONS \
  std::vector<std::int64_t> dims = {}; \
  bool keep = false; \
  std::string_view dtype = "";
template <class Options>
Attrs<Op::reduce_mean> reduce_mean_attrs(const Options& o) {
  Attrs<Op::reduce_mean> attrs;
  attrs
      .integers("dims", o.dims)
      .flag("keep", o.keep)
      .text("dtype", o.dtype);
  return attrs;
}

#define LAMINA_REDUCE_MIN_OPTIONS \
  std::vector<std::int64_t> dims = {}; \
  bool keep = false;
template <class Options>
Attrs<Op::reduce_min> reduce_min_attrs(const Options& o) {
  Attrs<Op::reduce_min> attrs;
  attrs
      .integers("dims", o.dims)
      .flag("keep", o.keep);
  return attrs;
}

#define LAMINA_LOGSUMEXP_OPTIONS \
  std::vector<std::int64_t> dims = {}; \
  bool keep = false;
template <class Options>
Attrs<Op::logsumexp> logsumexp_attrs(const Options& o) {
  Attrs<Op::logsumexp> attrs;
  attrs
      .integers("dims", o.dims)
      .flag("keep", o.keep);
  return attrs;
}

#define LAMINA_CUMSUM_OPTIONS \
  std::int64_t dim = 0; \
  bool exclusive = false; \
  bool reverse = false;
template <class Options>
Attrs<Op::cumsum> cumsum_attrs(const Options& o) {
  Attrs<Op::cumsum> attrs;
  attrs
      .integer("dim", o.dim)
      .flag("exclusive", o.exclusive)
      .flag("reverse", o.reverse);
  return attrs;
}

#define LAMINA_ARGSORT_OPTIONS \
  bool descending = false;
template <class Options>
Attrs<Op::argsort> argsort_attrs(const Options& o) {
  Attrs<Op::argsort> attrs;
  attrs
      .flag("descending", o.descending);
  return attrs;
}

#define LAMINA_RMS_NORM_OPTIONS \
  double eps = 1e-6; \
  double offset = 0;
template <class Options>
Attrs<Op::rms_norm> rms_norm_attrs(const Options& o) {
  Attrs<Op::rms_norm> attrs;
  attrs
      .number("eps", o.eps)
      .number("offset", o.offset);
  return attrs;
}

#define LAMINA_LAYER_NORM_OPTIONS \
  double eps = 1e-5; \
  double offset = 0;
template <class Options>
Attrs<Op::layer_norm> layer_norm_attrs(const Options& o) {
  Attrs<Op::layer_norm> attrs;
  attrs
      .number("eps", o.eps)
      .number("offset", o.offset);
  return attrs;
}

#define LAMINA_ROPE_OPTIONS \
  double theta = 10000; \
  std::int64_t rotary_dim = 0; \
  bool interleaved = false; \
  std::string_view scaling = "none"; \
  double factor = 1; \
  double low_freq_factor = 1; \
  double high_freq_factor = 4; \
  std::int64_t original_max_positions = 0; \
  double beta_fast = 32; \
  double beta_slow = 1; \
  double attention_factor = 0; \
  double mscale = 0; \
  double mscale_all_dim = 0; \
  bool truncate = true; \
  std::int64_t max_positions = 0; \
  std::int64_t frequency_dim = 0; \
  std::vector<std::int64_t> mrope_section = {}; \
  bool mrope_interleaved = false; \
  std::vector<double> short_factor = {}; \
  std::vector<double> long_factor = {};
template <class Options>
Attrs<Op::rope> rope_attrs(const Options& o) {
  Attrs<Op::rope> attrs;
  attrs
      .number("theta", o.theta)
      .integer("rotary_dim", o.rotary_dim)
      .flag("interleaved", o.interleaved)
      .text("scaling", o.scaling)
      .number("factor", o.factor)
      .number("low_freq_factor", o.low_freq_factor)
      .number("high_freq_factor", o.high_freq_factor)
      .integer("original_max_positions", o.original_max_positions)
      .number("beta_fast", o.beta_fast)
      .number("beta_slow", o.beta_slow)
      .number("attention_factor", o.attention_factor)
      .number("mscale", o.mscale)
      .number("mscale_all_dim", o.mscale_all_dim)
      .flag("truncate", o.truncate)
      .integer("max_positions", o.max_positions)
      .integer("frequency_dim", o.frequency_dim)
      .integers("mrope_section", o.mrope_section)
      .flag("mrope_interleaved", o.mrope_interleaved)
      .numbers("short_factor", o.short_factor)
      .numbers("long_factor", o.long_factor);
  return attrs;
}

#define LAMINA_ATTENTION_OPTIONS \
  double scale = 0; \
  double soft_cap = 0; \
  bool causal = true; \
  std::int64_t window = 0; \
  std::int64_t chunk = 0;
template <class Options>
Attrs<Op::attention> attention_attrs(const Options& o) {
  Attrs<Op::attention> attrs;
  attrs
      .number("scale", o.scale)
      .number("soft_cap", o.soft_cap)
      .flag("causal", o.causal)
      .integer("window", o.window)
      .integer("chunk", o.chunk);
  return attrs;
}

#define LAMINA_GLU_OPTIONS \
  std::string_view activation = "silu";
template <class Options>
Attrs<Op::glu> glu_attrs(const Options& o) {
  Attrs<Op::glu> attrs;
  attrs
      .text("activation", o.activation);
  return attrs;
}

#define LAMINA_SOFT_CAP_OPTIONS \
  double cap = 0;
template <class Options>
Attrs<Op::soft_cap> soft_cap_attrs(const Options& o) {
  Attrs<Op::soft_cap> attrs;
  attrs
      .number("cap", o.cap);
  return attrs;
}

#define LAMINA_DROPOUT_OPTIONS \
  double rate = 0;
template <class Options>
Attrs<Op::dropout> dropout_attrs(const Options& o) {
  Attrs<Op::dropout> attrs;
  attrs
      .number("rate", o.rate);
  return attrs;
}

#define LAMINA_GROUP_ROWS_OPTIONS \
  std::int64_t groups = 0; \
  double capacity_factor = 0;
template <class Options>
Attrs<Op::group_rows> group_rows_attrs(const Options& o) {
  Attrs<Op::group_rows> attrs;
  attrs
      .integer("groups", o.groups)
      .number("capacity_factor", o.capacity_factor);
  return attrs;
}

#define LAMINA_GATHER_ROWS_OPTIONS \
  std::int64_t divide = 1;
template <class Options>
Attrs<Op::gather_rows> gather_rows_attrs(const Options& o) {
  Attrs<Op::gather_rows> attrs;
  attrs
      .integer("divide", o.divide);
  return attrs;
}

#define LAMINA_CAUSAL_CONV1D_OPTIONS \
  std::int64_t dilation = 1; \
  std::string_view activation = "none"; \
  bool across = false;
template <class Options>
Attrs<Op::causal_conv1d> causal_conv1d_attrs(const Options& o) {
  Attrs<Op::causal_conv1d> attrs;
  attrs
      .integer("dilation", o.dilation)
      .text("activation", o.activation)
      .flag("across", o.across);
  return attrs;
}

#define LAMINA_GATED_DELTA_RULE_OPTIONS \
  double scale = 0; \
  bool normalize = false; \
  bool across = false;
template <class Options>
Attrs<Op::gated_delta_rule> gated_delta_rule_attrs(const Options& o) {
  Attrs<Op::gated_delta_rule> attrs;
  attrs
      .number("scale", o.scale)
      .flag("normalize", o.normalize)
      .flag("across", o.across);
  return attrs;
}

#define LAMINA_LATENT_ATTENTION_OPTIONS \
  std::int64_t nope_dim = 0; \
  double scale = 0; \
  bool causal = true;
template <class Options>
Attrs<Op::latent_attention> latent_attention_attrs(const Options& o) {
  Attrs<Op::latent_attention> attrs;
  attrs
      .integer("nope_dim", o.nope_dim)
      .number("scale", o.scale)
      .flag("causal", o.causal);
  return attrs;
}

#define LAMINA_SINKHORN_OPTIONS \
  std::int64_t iterations = 20; \
  double eps = 1e-6;
template <class Options>
Attrs<Op::sinkhorn> sinkhorn_attrs(const Options& o) {
  Attrs<Op::sinkhorn> attrs;
  attrs
      .integer("iterations", o.iterations)
      .number("eps", o.eps);
  return attrs;
}

#define LAMINA_MATRIX_SCAN_OPTIONS \
  double scale = 1; \
  bool decay_first = true; \
  bool read_before = false;
template <class Options>
Attrs<Op::matrix_scan> matrix_scan_attrs(const Options& o) {
  Attrs<Op::matrix_scan> attrs;
  attrs
      .number("scale", o.scale)
      .flag("decay_first", o.decay_first)
      .flag("read_before", o.read_before);
  return attrs;
}

#define LAMINA_TOP_K_MASK_OPTIONS \
  std::int64_t k = 1; \
  bool causal = true;
template <class Options>
Attrs<Op::top_k_mask> top_k_mask_attrs(const Options& o) {
  Attrs<Op::top_k_mask> attrs;
  attrs
      .integer("k", o.k)
      .flag("causal", o.causal);
  return attrs;
}

#define LAMINA_WINDOW_ENDS_OPTIONS \
  std::int64_t ratio = 1;
template <class Options>
Attrs<Op::window_ends> window_ends_attrs(const Options& o) {
  Attrs<Op::window_ends> attrs;
  attrs
      .integer("ratio", o.ratio);
  return attrs;
}

#define LAMINA_WINDOW_POOL_OPTIONS \
  std::int64_t ratio = 1; \
  bool overlap = false;
template <class Options>
Attrs<Op::window_pool> window_pool_attrs(const Options& o) {
  Attrs<Op::window_pool> attrs;
  attrs
      .integer("ratio", o.ratio)
      .flag("overlap", o.overlap);
  return attrs;
}

#define LAMINA_COMPRESSED_ATTENTION_OPTIONS \
  std::int64_t ratio = 1; \
  std::int64_t window = 1; \
  std::int64_t k = 0; \
  double scale = 0;
template <class Options>
Attrs<Op::compressed_attention> compressed_attention_attrs(const Options& o) {
  Attrs<Op::compressed_attention> attrs;
  attrs
      .integer("ratio", o.ratio)
      .integer("window", o.window)
      .integer("k", o.k)
      .number("scale", o.scale);
  return attrs;
}

#define LAMINA_ATTENTION_MASS_OPTIONS \
  double scale = 0;
template <class Options>
Attrs<Op::attention_mass> attention_mass_attrs(const Options& o) {
  Attrs<Op::attention_mass> attrs;
  attrs
      .number("scale", o.scale);
  return attrs;
}

#define LAMINA_MOBA_MASK_OPTIONS \
  std::int64_t chunk = 1; \
  std::int64_t k = 1;
template <class Options>
Attrs<Op::moba_mask> moba_mask_attrs(const Options& o) {
  Attrs<Op::moba_mask> attrs;
  attrs
      .integer("chunk", o.chunk)
      .integer("k", o.k);
  return attrs;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
