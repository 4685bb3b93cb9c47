// Cross-entropy of rows of logits, given in tiles of the vocabulary (online softmax: Milakov &
// Gimelshein 2018).
//
// Bound by memory, or by the L2 cache for tiles that fit into it: products are read once per pass
// as vectors of 16 bytes by one block per row. Sums of a row and of all rows have a fixed order.
#include "backends/cuda/cross_entropy/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/sums.h"

namespace lamina::cuda {
namespace {

struct Logits {
  float values[kLossColumns];
};

LAMINA_GPU_FUNCTION float logit_of(const LogitsOfRows& p, float product, float bias) {
  const float logit = product * p.scale + bias;
  return p.soft_cap > 0 ? p.soft_cap * gpu::tanh(logit / p.soft_cap) : logit;
}

// Loads the logits of columns [column, column + kLossColumns); `beyond` where there is no column.
LAMINA_GPU_FUNCTION Logits load_logits(const LogitsOfRows& p, gpu::Global<const float> products,
                                       std::int64_t column, float beyond) {
  const gpu::Global<const float> bias(p.bias);
  Logits out;
  if (!bias && p.soft_cap <= 0 && column + kLossColumns <= p.num_columns) {  // most of them
    LAMINA_GPU_UNROLL
    for (int part = 0; part < kLossColumns; part += 4) {
      const auto four = gpu::load_vector<4>(products, column + part);
      LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i) out.values[part + i] = four.values[i] * p.scale;
    }
    return out;
  }
  for (int part = 0; part < kLossColumns; part += 4) {
    const auto four = gpu::load_vector<4>(products, column + part);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t c = column + part + i;
      out.values[part + i] =
          c < p.num_columns ? logit_of(p, four.values[i], bias ? bias[p.first_column + c] : 0.0f)
                            : beyond;
    }
  }
  return out;
}

struct Running {
  float max, sum, total;
};

// The sums of this thread's columns of a row.
LAMINA_GPU_FUNCTION Running sum_columns(const LogitsOfRows& p, gpu::Global<const float> products) {
  Running out{-gpu::infinity(), 0, 0};
  for (std::int64_t column = gpu::thread_index() * kLossColumns; column < p.num_columns;
       column += gpu::num_threads() * kLossColumns) {
    const Logits logits = load_logits(p, products, column, -gpu::infinity());
    float largest = out.max;
    for (int i = 0; i < kLossColumns; ++i) largest = gpu::max(largest, logits.values[i]);
    const float shift = largest == -gpu::infinity() ? 0.0f : largest;
    out.sum *= gpu::exp(out.max - shift);
    out.max = largest;
    for (int i = 0; i < kLossColumns; ++i) {
      out.sum += gpu::exp(logits.values[i] - shift);
      if (column + i < p.num_columns) out.total += logits.values[i];
    }
  }
  return out;
}

LAMINA_GPU_FUNCTION float shift_of(float max) { return max == -gpu::infinity() ? 0.0f : max; }

// Adds the sums of a tile to the sums of its row.
LAMINA_GPU_FUNCTION LossRow merged(const LossRow& row, const LossRow& tile) {
  LossRow out = row;
  out.max = gpu::max(row.max, tile.max);
  const float shift = shift_of(out.max);
  out.sum = row.sum * gpu::exp(row.max - shift) + tile.sum * gpu::exp(tile.max - shift);
  out.target = row.target + tile.target;  // one of them is 0
  out.total = row.total + tile.total;
  return out;
}

// The sums of a tile's columns of a row, for all threads of the block; `target` is 0 if the label
// is not in the tile.
LAMINA_GPU_FUNCTION LossRow sum_tile(const LogitsOfRows& p, gpu::Global<const float> products,
                                     std::int32_t label) {
  LossRow out{};
  const std::int64_t column = label - p.first_column;
  if (label >= 0 && column >= 0 && column < p.num_columns) {
    const gpu::Global<const float> bias(p.bias);
    out.target = logit_of(p, products[column], bias ? bias[label] : 0.0f);
  }
  const Running mine = sum_columns(p, products);
  out.max = gpu::block_max(mine.max, -gpu::infinity());
  out.sum = gpu::block_sum(mine.sum * gpu::exp(mine.max - shift_of(out.max)));
  out.total = gpu::block_sum(mine.total);
  return out;
}

// Zeros the gradients of a row, up to a whole number of vectors, as store_gradients() does.
template <typename T>
LAMINA_GPU_FUNCTION void zero_row(gpu::Global<T> row, std::int64_t columns) {
  columns = (columns + kLossColumns - 1) / kLossColumns * kLossColumns;
  for (std::int64_t c = gpu::thread_index(); c < columns; c += gpu::num_threads())
    gpu::store(row, c, 0.0f);
}

// The gradient of a logit is scale p - rest, minus `hit` at the label; p = exp(logit - max) / sum.
// exp(logit - lse) is not used, because lse loses digits where logits are large.
struct RowGradient {
  float max, scale, rest, hit;
  std::int64_t label;
};

LAMINA_GPU_FUNCTION RowGradient row_gradient(const LossGradientParams& p, std::int64_t r,
                                             const LossRow& row, std::int32_t label) {
  const gpu::Global<const float> duniform(p.duniform_loss), of_rows(p.dtoken_loss);
  const float z = gpu::Global<const float>(p.dz_loss)[0];
  const float uniform = duniform ? duniform[0] : 0.0f;
  const float loss = gpu::Global<const float>(p.dloss)[0] + (of_rows ? of_rows[r] : 0.0f);
  const float lse = row.max + gpu::log(row.sum);
  return {.max = row.max,
          .scale = (loss + uniform + 2 * z * lse) / row.sum,
          .rest = uniform / static_cast<float>(p.logits.num_columns),
          .hit = loss,
          .label = label};
}

template <typename T>
LAMINA_GPU_FUNCTION T gradient_of(const LogitsOfRows& p, const RowGradient& g, float logit,
                                  std::int64_t column) {
  float d = gpu::exp(logit - g.max) * g.scale - g.rest;
  if (column == g.label) d -= g.hit;
  if (p.soft_cap > 0) {
    const float t = logit / p.soft_cap;
    d *= 1 - t * t;
  }
  return gpu::narrow<T>(column < p.num_columns ? d * p.scale : 0.0f);
}

template <typename T>
LAMINA_GPU_FUNCTION void store_gradients(gpu::Global<T> to, std::int64_t column,
                                         const T (&values)[kLossColumns]) {
  constexpr int kPart = 16 / sizeof(T);
  for (int first = 0; first < kLossColumns; first += kPart) {
    gpu::Vector<T, kPart> part;
    for (int i = 0; i < kPart; ++i) part.values[i] = values[first + i];
    gpu::store_vector<kPart>(to, column + first, part);
  }
}

// Sums a row, then replaces it by its gradients: the second pass finds a part of it in L2.
template <typename T>
LAMINA_GPU_FUNCTION void loss_gradient(const LossGradientParams& p) {
  const LogitsOfRows& l = p.logits;
  const gpu::Global<const std::int32_t> labels(l.labels);
  const gpu::Global<LossRow> rows(l.rows);
  constexpr std::int64_t kPerFloat = sizeof(float) / sizeof(T);
  const std::int64_t step = gpu::num_threads() * kLossColumns;
  for (std::int64_t r = gpu::block_index(); r < l.num_rows; r += gpu::num_blocks()) {
    const gpu::Global<const float> products = gpu::Global<const float>(l.products) + r * l.stride;
    const gpu::Global<T> gradients = gpu::Global<T>(l.products) + r * l.stride * kPerFloat;
    const std::int32_t label = labels[r];
    if (label < 0) {
      zero_row(gradients, l.num_columns);
      continue;
    }
    const LossRow row = sum_tile(l, products, label);
    if (gpu::thread_index() == 0) rows[r] = row;
    gpu::sync();  // every thread has read the label's product
    const RowGradient g = row_gradient(p, r, row, label);
    for (std::int64_t first = 0; first < l.num_columns; first += step) {
      const std::int64_t column = first + gpu::thread_index() * kLossColumns;
      const bool mine = column < l.num_columns;
      T out[kLossColumns];
      if (mine) {
        const Logits logits = load_logits(l, products, column, 0.0f);
        for (int i = 0; i < kLossColumns; ++i)
          out[i] = gradient_of<T>(l, g, logits.values[i], column + i);
      }
      // Narrow gradients lie where the products of earlier columns were: of this step at most.
      if constexpr (sizeof(T) < sizeof(float)) gpu::sync();
      if (mine) store_gradients(gradients, column, out);
    }
  }
}

template <typename T>
LAMINA_GPU_FUNCTION void loss_bias(const LossBiasParams& p) {
  const gpu::Global<const T> gradients(p.gradients);
  const gpu::Global<float> dbias(p.dbias);
  for (std::int64_t c = gpu::first_index(); c < p.vocabulary; c += gpu::num_indices()) {
    double sum = 0;
    for (std::int64_t r = 0; r < p.num_rows; ++r)
      sum += static_cast<double>(gpu::load(gradients, r * p.stride + c));
    const auto mean = static_cast<float>(sum / static_cast<double>(p.scale));
    dbias[c] = p.first ? mean : dbias[c] + mean;
  }
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(cross_entropy_tile, LossTileParams, kLossThreads, 2) {
  const LogitsOfRows& l = p.logits;
  const gpu::Global<const std::int32_t> labels(l.labels);
  const gpu::Global<LossRow> rows(l.rows);
  for (std::int64_t r = gpu::block_index(); r < l.num_rows; r += gpu::num_blocks()) {
    const std::int32_t label = labels[r];
    if (label < 0 && !p.all_rows) continue;
    const gpu::Global<const float> products = gpu::Global<const float>(l.products) + r * l.stride;
    const LossRow tile = sum_tile(l, products, label);
    if (gpu::thread_index() == 0) rows[r] = p.first ? tile : merged(rows[r], tile);
  }
}

// One block, so that the sums over rows have one order.
LAMINA_GPU_KERNEL_BOUNDS(cross_entropy_sums, LossSumsParams, kLossThreads, 1) {
  const gpu::Global<const std::int32_t> labels(p.labels);
  const gpu::Global<const LossRow> rows(p.rows);
  const gpu::Global<float> token_loss(p.token_loss), lse_out(p.lse);
  double sums[3] = {};
  for (std::int64_t r = gpu::thread_index(); r < p.num_rows; r += gpu::num_threads()) {
    const bool counts = labels[r] >= 0;
    if (token_loss && !counts) token_loss[r] = 0;
    if (!counts && !lse_out) continue;
    const LossRow row = rows[r];
    const double lse = static_cast<double>(row.max) + gpu::log(static_cast<double>(row.sum));
    const double loss = lse - static_cast<double>(row.target);
    if (lse_out) lse_out[r] = static_cast<float>(lse);
    if (!counts) continue;
    if (token_loss) token_loss[r] = static_cast<float>(loss);
    sums[0] += loss;
    sums[1] += lse * lse;
    sums[2] += lse - static_cast<double>(row.total) / static_cast<double>(p.vocabulary);
  }
  const gpu::Global<double> all(p.sums);
  for (int i = 0; i < 3; ++i) {
    const double sum = gpu::block_sum(sums[i]);
    if (gpu::thread_index() != 0) continue;
    const double now = p.first ? sum : all[i] + sum;
    all[i] = now;
    const gpu::Global<float> result(p.results[i]);
    if (result) result[0] = static_cast<float>(now);
  }
}

LAMINA_GPU_KERNEL_BOUNDS(cross_entropy_gradient_f32, LossGradientParams, kLossThreads, 2) {
  loss_gradient<float>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(cross_entropy_gradient_bf16, LossGradientParams, kLossThreads, 2) {
  loss_gradient<gpu::bfloat16>(p);
}
LAMINA_GPU_KERNEL(cross_entropy_bias_f32, LossBiasParams) { loss_bias<float>(p); }
LAMINA_GPU_KERNEL(cross_entropy_bias_bf16, LossBiasParams) { loss_bias<gpu::bfloat16>(p); }

}  // namespace lamina::cuda
