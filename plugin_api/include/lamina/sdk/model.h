// A model family as a constant: names, keys, blocks, plan, norm, embedding, head and tensor map.
// plugin_api/template/model.cc is a complete one.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "lamina/sdk/plan.h"
#include "lamina/sdk/schema.h"
#include "lamina/sdk/step.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// A few names, usable at compile time.
struct Names {
  static constexpr std::size_t kMax = 8;
  std::string_view items[kMax] = {};
  std::uint32_t count = 0;

  constexpr Names() = default;
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) {
      if (count == kMax) does_not_compile("more than 8 names");
      items[count++] = name;
    }
  }
  constexpr const std::string_view* begin() const { return items; }
  constexpr const std::string_view* end() const { return items + count; }
};

// hf_prefixes of a text model alone, or inside a model of images and sounds.
inline constexpr Names kTextPrefixes = {"model.", "language_model.", "model.language_model."};

struct Family {
  std::string_view name = {};   // `family` in a run file
  Names aliases = {};           // other values of `family`
  Names hf_model_types = {};    // `model_type` in config.json
  Names hf_architectures = {};  // `architectures`; the first is exported
  Names hf_prefixes = {};       // prefixes that published tensor names may have or lack
  std::string_view doc;         // one line: paper, what is covered
  // The family whose format exports use; the blocks compute its parameters, see
  // Scope::exported_value(). Empty = this family.
  std::string_view exports_as = {};
};

// The final norm.
struct Norm {
  std::uint32_t op = 0, revision = 0, flags = 0;
  std::vector<lamina_attr_t> attrs;
  double eps = 1e-6;  // the value in attrs
  Norm() = default;
  Norm(const RmsNormOptions& o) : eps(o.eps) { set(Op::rms_norm, rms_norm_attrs(o).list(), 0); }
  Norm(const LayerNormOptions& o) : eps(o.eps) {
    set(Op::layer_norm, layer_norm_attrs(o).list(), o.bias ? LAMINA_NORM_BIAS : 0);
  }

 private:
  void set(Op which, const std::vector<lamina_attr_t>& list, std::uint32_t bits) {
    op = row_of(which).id;
    revision = row_of(which).revision;
    attrs = list;
    flags = bits;
  }
};

// x = dropout(table[ids] * scale + positions).
struct Embed {
  double scale = 1;
  std::uint32_t positions = LAMINA_POSITIONS_NONE;
  std::int64_t max_positions = 0;  // rows of learned positions
  double dropout = 0;
  double init_std = 0;            // 0 = the model's
  double positions_init_std = 0;  // 0 = as init_std
  // Block that runs once, before the layers: it maps {x} to `carries` carries of any shape and
  // `per_layer` tensors whose first dim is the number of layers (Step::per_layer). 0 = none.
  std::uint32_t entry = 0;
  std::uint32_t carries = 1;
  std::uint32_t per_layer = 0;
  // Residual streams of carry 0 [B, T, streams, D], made from {x}; 0 = carry 0 is something else.
  std::int64_t streams = 0;
};

// logits = cap(norm(x) w^T * logit_scale + bias).
struct Head {
  Norm norm = {};
  bool tied = false;     // w is the embedding table
  bool bias = false;     // a parameter [V]
  bool no_loss = false;  // training computes no logits and minimises auxiliary losses only
  // Tokens see later tokens (AttendOptions::causal): the model is never decoded.
  bool bidirectional = false;
  double logit_scale = 1;
  double soft_cap = 0;
  double init_std = 0;     // 0 = the model's
  std::uint32_t exit = 0;  // block that runs once, after the layers: maps the carries to {x_BTD}
};

// Multi-token prediction; see ext/mtp.h. Block j (from 0) maps {hidden state, embedding of the
// token 1 + j ahead} to {next hidden state, input of the head}.
struct Mtp {
  std::uint32_t block = 0;
  std::int64_t depth = 0;  // 0 = none
  std::vector<Override> overrides = {};
  std::string_view weight_key = {};  // a number, or a list with one per depth; empty = 1
  bool normed_hidden = false;        // the first hidden state is taken after the final norm
  bool shifted_positions = false;    // blocks see the positions of their input tokens
  bool final_norm = true;            // the final norm is applied before the head
  bool chained = false;              // LAMINA_MTP_CHAINED
  bool carries = false;              // LAMINA_MTP_CARRIES
};

using Tensors = std::vector<Tensor>;

// The function that builds a block. Another function does not compile, and the compiler then prints
// the form.
template <class Form>
class BuildFunction {
 public:
  constexpr BuildFunction(Form* function = nullptr) : function_(function) {}
  template <class F>
  constexpr BuildFunction(F function) {
    static_assert(std::is_convertible_v<F, Form*>,
                  "build is 'Tensor f(Scope, const Config&, Tensor, const Step&)', build_all is "
                  "'Tensors f(Scope, const Config&, const Tensors&, const Step&)'");
    if constexpr (std::is_convertible_v<F, Form*>) function_ = function;
  }
  constexpr operator Form*() const { return function_; }

 private:
  Form* function_ = nullptr;
};

// A kind of layer, or a block before or after the layers. Exactly one of the two builds is set.
template <class Config>
struct Block {
  std::uint32_t id = 0;        // from 1; the plan's units refer to it
  std::string_view name = {};  // for messages
  // Maps carry 0; other carries are passed on unchanged. [trace]
  BuildFunction<Tensor(Scope s, const Config& c, Tensor x_BTD, const Step& step)> build = {};
  // Maps all carries. [trace]
  BuildFunction<Tensors(Scope s, const Config& c, const Tensors& carries, const Step& step)>
      build_all = {};
};

// A step of the conversion from a published tensor to ours. Dims refer to the tensor after the
// earlier steps; negative values count from the last dim.
struct Transform {
  std::uint32_t kind = 0;  // LAMINA_TRANSFORM_*
  double number = 0;
  std::int64_t dim = 0;
  std::uint32_t index = 0, count = 0;
};
inline constexpr Transform kTranspose{LAMINA_TRANSFORM_TRANSPOSE};  // the last two dims
constexpr Transform added(double number) { return {LAMINA_TRANSFORM_ADD, number}; }
constexpr Transform multiplied(double number) { return {LAMINA_TRANSFORM_MUL, number}; }
// Part `index` of several parameters concatenated along dim.
constexpr Transform part(std::uint32_t index, std::int64_t dim) {
  return {LAMINA_TRANSFORM_PART, 0, dim, index};
}
// Takes every count-th element along dim, starting at index: parameters that are interleaved.
constexpr Transform strided(std::uint32_t index, std::uint32_t count, std::int64_t dim) {
  return {LAMINA_TRANSFORM_STRIDED, 0, dim, index, count};
}
// Removes a dim of size 1, eg: published [C, 1, K], ours [C, K].
constexpr Transform squeezed(std::int64_t dim) { return {LAMINA_TRANSFORM_SQUEEZE, 0, dim}; }
// Splits one published dim into our dims dim and dim + 1.
constexpr Transform split(std::int64_t dim) { return {LAMINA_TRANSFORM_SPLIT, 0, dim}; }
// Merges published dims dim and dim + 1, the second of size `count`, into one.
constexpr Transform merged(std::int64_t dim, std::uint32_t count) {
  return {LAMINA_TRANSFORM_MERGE, 0, dim, 0, count};
}
// Moves published dim `dim` to our dim `to`.
constexpr Transform moved(std::int64_t dim, std::uint32_t to) {
  return {LAMINA_TRANSFORM_MOVE, 0, dim, to};
}

// A row of the tensor map: our name, the published name, and the conversion to ours. It is used for
// loading and exporting, and ignored if a model has no such parameter. Several rows of one
// parameter are alternatives; the first is exported.
//   {kMoe, "experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
//   {kMoe, "experts.w1.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(0, 1)}},
struct Weight {
  std::uint32_t block = 0;  // 0 = outside the layers
  std::string_view name = {};
  // {L}: global index of the layer; {P}: index of a prediction layer, from 0; {E}: index into our
  // first dim, with one tensor for each
  std::string_view hf = {};
  std::vector<Transform> transforms = {};
  std::uint32_t flags = 0;  // LAMINA_HF_*
};
// A published tensor that is not used here; * matches anything.
inline Weight ignored(std::string_view hf) { return {.hf = hf, .flags = LAMINA_HF_IGNORE}; }
// Ignores layers past the last; {L} is such a layer, eg: "model.layers.{L}.*".
inline Weight ignored_beyond(std::string_view hf) {
  return {.hf = hf, .flags = LAMINA_HF_IGNORE | LAMINA_HF_BEYOND};
}

// The inputs of the default prediction layers: hidden states as in the checkpoints of DeepSeek V3;
// residual streams as in V4; as MaxText trains them; or none: the family has no keys, blocks and
// tensors for prediction.
enum class MtpInputs { published, streams, maxtext, none };

// Published names of the tensors of default prediction layers, in addition to DeepSeek V3's names.
// A name without {P} is for models with one such layer.
struct MtpNames {
  std::string_view layer = {};  // replaces "model.layers.{L}." in rows of layers; empty: only V3's
  std::string_view own = {};    // prefix of the names below, and of tensors of the exit block
  std::string_view embedding_norm = "enorm.weight", hidden_norm = "hnorm.weight",
                   projection = "eh_proj.weight", head_norm = "norm.weight";
  double norm_offset = 0;  // added to published norm weights
};

// A family. family, keys and blocks are required. Functions marked "derived" have defaults that are
// derived from the config (see standard_model.h), to which derive and validate are additions; the
// others do nothing if they are null.
template <class C>
struct Model {
  using Config = C;

  Family family = {};
  void (*keys)(Schema<Config>& key) = nullptr;
  void (*derive)(const Config& c, const Derived& derived) = nullptr;     // derived
  void (*validate)(const Config& c, const Problems& problem) = nullptr;  // derived
  bool own_checks = false;                        // derive and validate have no defaults
  double (*init_std)(const Config& c) = nullptr;  // of weights; derived
  std::vector<Block<Config>> (*blocks)() = nullptr;
  Plan (*plan)(const Config& c) = nullptr;  // derived
  Embed (*embed)(const Config& c) = nullptr;
  Head (*head)(const Config& c) = nullptr;  // derived
  // If null, the last layer's block, or mtp_layer's, can predict further tokens from mtp_inputs;
  // see mtp.h.
  Mtp (*mtp)(const Config& c) = nullptr;
  MtpInputs mtp_inputs = MtpInputs::maxtext;
  std::uint32_t (*mtp_layer)(const Config& c) = nullptr;
  MtpNames mtp_names = {};
  std::vector<Weight> (*weights)() = nullptr;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
