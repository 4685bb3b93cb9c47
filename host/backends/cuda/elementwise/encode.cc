// Encodes a map: one step per instruction, one per load, cast and store. A store follows the step
// that computes its value, but no load follows a store: an output may be an input.
#include "backends/cuda/elementwise/encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/error.h"
#include "runtime/map/dims.h"

namespace lamina::cuda {
namespace {

// A loaded or computed number; registers of the program refer to these in turn.
struct MapValue {
  MapKind kind;
  DType dtype;
  int input = -1;    // loaded on first use
  int pattern = -1;  // of an iota
  int step = -1;     // that defines it; -1: not yet read
  int widened = -1;  // for a value that is another one rounded to its dtype: the other one
};

// A step with numbers of values instead of slots.
struct MapDraft {
  GpuMapStep step;
  int dst = -1;
  std::array<int, 3> src = {-1, -1, -1};
};

bool is_narrow(DType dtype) {
  return dtype != DType::f32 && dtype != DType::f64 && dtype != DType::i32 && dtype != DType::i64;
}

std::int64_t bits_of_immediate(MapKind kind, const MapInstruction& in) {
  if (kind == MapKind::f64) return std::bit_cast<std::int64_t>(in.value);
  if (kind == MapKind::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(in.value));
  if (kind == MapKind::i32) return static_cast<std::uint32_t>(in.integer);
  return in.integer;
}

class MapEncoder {
 public:
  explicit MapEncoder(const MapProgram& program) : program_(program) {}

  EncodedMap encode() {
    out_.params = {};
    add_inputs();
    for (const MapInstruction& in : program_.instructions) add_instruction(in);
    add_outputs();
    merge_strides();
    if (out_.too_large.empty()) order_stores();
    if (out_.too_large.empty()) assign_slots();
    return std::move(out_);
  }

 private:
  MapValue& value(int id) { return values_[static_cast<std::size_t>(id)]; }
  MapPlace& operand(std::size_t i) { return out_.params.operands[i]; }

  int new_value(DType dtype) {
    const MapKind kind = map_kind(dtype).value();
    out_.wide |= kind == MapKind::f64 || kind == MapKind::i64;
    values_.push_back({.kind = kind, .dtype = dtype});
    return static_cast<int>(values_.size()) - 1;
  }

  void set_register(int reg, int id) {
    if (reg >= static_cast<int>(registers_.size()))
      registers_.resize(static_cast<std::size_t>(reg) + 1, -1);
    registers_[static_cast<std::size_t>(reg)] = id;
  }

  // Returns the value of a register; its first use adds a step that loads it.
  int read_register(int reg) {
    const int id = registers_.at(static_cast<std::size_t>(reg));
    LAMINA_ASSERT(id >= 0);
    if (value(id).step >= 0) return id;
    const bool loads = value(id).input >= 0;
    add_step({.action = loads ? MapAction::load : MapAction::iota,
              .kind = value(id).kind,
              .dtype = value(id).dtype,
              .operand = static_cast<std::uint8_t>(loads ? value(id).input : value(id).pattern)},
             id);
    return id;
  }

  int add_step(const GpuMapStep& step, int dst, std::array<int, 3> src = {-1, -1, -1}) {
    value(dst).step = static_cast<int>(drafts_.size());
    drafts_.push_back({step, dst, src});
    return dst;
  }

  void add_inputs() {
    if (program_.inputs.size() + program_.outputs.size() > kMostMapOperands)
      return refuse("operands", kMostMapOperands);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const int id = new_value(program_.inputs[i].dtype);
      value(id).input = static_cast<int>(i);
      set_register(static_cast<int>(i), id);
      patterns_.push_back(program_.inputs[i].strides);
    }
  }

  void refuse(std::string_view what, int most) {
    out_.too_large = fmt::format("the map has more than {} {}", most, what);
  }

  void add_instruction(const MapInstruction& in) {
    if (in.op == MapOp::iota) {
      const int id = new_value(in.dtype);
      value(id).pattern = static_cast<int>(patterns_.size());
      MapStrides counts = {};
      counts[static_cast<std::size_t>(in.integer)] = 1;
      patterns_.push_back(counts);
      return set_register(in.dst, id);
    }
    std::array<int, 3> src = {-1, -1, -1};
    for (int i = 0; i < num_sources(in.op); ++i)
      src[static_cast<std::size_t>(i)] = read_register(in.src[static_cast<std::size_t>(i)]);
    if (in.op == MapOp::cast) return set_register(in.dst, add_cast(src[0], in.dtype));
    const bool compares = is_comparison(in.op);
    const int id = new_value(in.dtype);
    const MapKind kind = compares ? value(src[0]).kind : value(id).kind;
    bool exact = compares || keeps_numbers(in.op);
    for (int i = in.op == MapOp::select ? 1 : 0; i < num_sources(in.op) && !compares; ++i)
      exact &= value(src[static_cast<std::size_t>(i)]).dtype == in.dtype;
    add_step({.action = in.op == MapOp::constant ? MapAction::constant : MapAction::compute,
              .kind = kind,
              .op = in.op,
              .dtype = in.dtype,
              .rounds = is_narrow(in.dtype) && !exact && in.dtype != DType::boolean,
              .immediate = bits_of_immediate(kind, in)},
             id, src);
    set_register(in.dst, id);
  }

  int add_cast(int from, DType to) {
    const MapKind kind = map_kind(to).value(), from_kind = value(from).kind;
    if (kind == from_kind && (to == value(from).dtype || !is_narrow(to))) return from;
    const int id = new_value(to);
    const bool rounds = kind == MapKind::f32 && is_narrow(to);
    if (kind == MapKind::f32 && from_kind == kind) value(id).widened = from;
    return add_step({.action = MapAction::cast,
                     .kind = from_kind,
                     .op = MapOp::cast,
                     .dtype = to,
                     .rounds = rounds},
                    id, {from, -1, -1});
  }

  void add_outputs() {
    for (std::size_t i = 0; i < program_.outputs.size() && out_.too_large.empty(); ++i) {
      const MapOutput& output = program_.outputs[i];
      int id = read_register(output.reg);
      // A store rounds by itself: it takes the number before the rounding to its type.
      const MapKind kind = map_kind(output.dtype).value();
      if (value(id).widened >= 0 && value(id).dtype == output.dtype) id = value(id).widened;
      if (kind != MapKind::f32 || value(id).kind != MapKind::f32) id = add_cast(id, output.dtype);
      const std::size_t at = program_.inputs.size() + i;
      operand(at) = {.address = {}, .dtype = output.dtype, .pattern = kContiguous};
      stores_.push_back({{.action = MapAction::store,
                          .kind = kind,
                          .dtype = output.dtype,
                          .operand = static_cast<std::uint8_t>(at)},
                         -1,
                         {id, -1, -1}});
      patterns_.push_back(output.strides);
    }
  }

  // Sets the index space, and a pattern for each operand that is not contiguous.
  void merge_strides() {
    std::vector<MapStrides*> strides;
    for (MapStrides& of : patterns_) strides.push_back(&of);
    const MergedDims space = merge_dims(program_.dims, strides);
    MapParams& p = out_.params;
    p.num_elements = space.num_elements;
    p.ndim = space.ndim;
    for (int d = 0; d < space.ndim; ++d)
      p.dims[d] = gpu::divisor_of(space.dims[static_cast<std::size_t>(d)]);
    for (std::size_t i = 0; i < program_.inputs.size() && out_.too_large.empty(); ++i)
      operand(i) = {
          .address = {},
          .dtype = program_.inputs[i].dtype,
          .pattern = space.contiguous(patterns_[i]) ? kContiguous : pattern(patterns_[i])};
    for (MapDraft& draft : drafts_)
      if (draft.step.action == MapAction::iota)
        draft.step.operand = pattern(patterns_[draft.step.operand]);
  }

  std::uint8_t pattern(const MapStrides& strides) {
    MapParams& p = out_.params;
    int i = 0;
    while (i < num_patterns_ && !std::equal(p.strides[i], p.strides[i] + p.ndim, strides.begin()))
      ++i;
    if (i == kMostMapPatterns) {
      refuse("ways to broadcast an operand", kMostMapPatterns);
      return 0;
    }
    if (i == num_patterns_) std::copy_n(strides.begin(), p.ndim, p.strides[num_patterns_++]);
    return static_cast<std::uint8_t>(i);
  }

  void order_stores() {
    int last_load = -1;
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s)
      if (drafts_[static_cast<std::size_t>(s)].step.action == MapAction::load) last_load = s;
    drop_unread();
    std::vector<MapDraft> ordered;
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s) {
      if (read_[static_cast<std::size_t>(s)])
        ordered.push_back(drafts_[static_cast<std::size_t>(s)]);
      for (const MapDraft& store : stores_)
        if (std::max(last_load, value(store.src[0]).step) == s) ordered.push_back(store);
    }
    drafts_ = std::move(ordered);
    if (drafts_.size() > kMostMapSteps) refuse("steps", kMostMapSteps);
  }

  // Finds the steps whose values are read, directly or by others.
  void drop_unread() {
    read_.assign(drafts_.size(), false);
    const auto mark = [&](const MapDraft& draft) {
      for (int src : draft.src)
        if (src >= 0) read_[static_cast<std::size_t>(value(src).step)] = true;
    };
    for (const MapDraft& store : stores_) mark(store);
    for (std::size_t s = drafts_.size(); s-- > 0;)
      if (read_[s]) mark(drafts_[s]);
  }

  // A value is at hand until the next step that is no store, which may still read it; later steps
  // read it from a slot.
  void assign_slots() {
    const int count = static_cast<int>(drafts_.size());
    std::vector<int> defined(values_.size(), -1), held_until(values_.size(), -1),
        last_use(values_.size(), -1), slot(values_.size(), kHeld);
    for (int s = 0; s < count; ++s) {
      const MapDraft& draft = drafts_[static_cast<std::size_t>(s)];
      for (int src : draft.src)
        if (src >= 0) last_use[static_cast<std::size_t>(src)] = s;
      if (draft.dst < 0) continue;
      int next = s + 1;
      while (next < count && drafts_[static_cast<std::size_t>(next)].dst < 0) ++next;
      held_until[static_cast<std::size_t>(draft.dst)] = next;
    }
    std::vector<int> free;
    for (int s = 0; s < count; ++s) {
      MapDraft& draft = drafts_[static_cast<std::size_t>(s)];
      GpuMapStep& step = draft.step;
      for (std::size_t i = 0; i < 3; ++i) {
        const int src = draft.src[i];
        step.src[i] = kHeld;
        if (src < 0) continue;
        const auto v = static_cast<std::size_t>(src);
        if (s > held_until[v]) step.src[i] = static_cast<std::uint8_t>(slot[v]);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        const int src = draft.src[i];
        if (src < 0 || last_use[static_cast<std::size_t>(src)] != s) continue;
        int& of_src = slot[static_cast<std::size_t>(src)];
        if (of_src != kHeld) free.push_back(of_src);
        of_src = kHeld;
      }
      step.dst = kHeld;
      if (draft.dst >= 0) {
        const auto v = static_cast<std::size_t>(draft.dst);
        if (last_use[v] > held_until[v]) {
          if (free.empty()) free.push_back(out_.num_slots++);
          slot[v] = free.back();
          free.pop_back();
          step.dst = static_cast<std::uint8_t>(slot[v]);
        }
      }
      out_.params.steps[s] = step;
    }
    out_.params.num_steps = count;
  }

  const MapProgram& program_;
  EncodedMap out_;
  std::vector<MapValue> values_;
  std::vector<int> registers_;
  std::vector<MapDraft> drafts_, stores_;
  std::vector<MapStrides> patterns_;  // of inputs, counts and outputs
  std::vector<bool> read_;
  int num_patterns_ = 0;
};

}  // namespace

EncodedMap encode_map(const MapProgram& program) { return MapEncoder(program).encode(); }

}  // namespace lamina::cuda
