// Compiles a MapProgram to loads, steps and stores: checks it, merges dims, removes roundings
// without effect, and assigns every value a slot of the register file.
#include <algorithm>
#include <optional>

#include "backends/cpu/elementwise/map_compiled.h"
#include "backends/cpu/threads/isa.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr int kForever = 1 << 30;

// A computed or loaded register content; registers of the program refer to these in turn.
struct Value {
  MapKind kind;
  DType dtype;        // the type of its elements
  int operand = -1;   // >= 0: loaded, on first use
  bool once = false;  // the same everywhere
  int step = -1;      // that defines it; -1: not yet loaded
  int slot = -1;
  int last_use = -1;   // step, or kForever for outputs and what is loaded once
  int other_uses = 0;  // uses that are not stores of bf16
  int bf16_stores = 0;
};

// A step with value numbers instead of slots.
struct Draft {
  MapStep step;
  int dst;
  std::array<int, 3> src = {-1, -1, -1};
  MapVariants unrounded;  // the same without rounding to bf16, if there is such a rounding
};

int register_bytes(MapKind kind) { return kind == MapKind::f64 || kind == MapKind::i64 ? 8 : 4; }

class Compiler {
 public:
  explicit Compiler(const MapProgram& program)
      : program_(program), functions_(isa_table<MapFunctions>()) {}

  MapCompiled compile() {
    add_inputs();
    for (index_ = 0; index_ < static_cast<int>(program_.instructions.size()); ++index_)
      add_instruction(program_.instructions[static_cast<std::size_t>(index_)]);
    index_ = -1;
    add_outputs();
    drop_roundings();
    merge_operand_dims(map_, program_.dims);
    find_uniform_values();
    allocate_slots();
    choose_tiles();
    allow_direct_reads();
    allow_direct_writes();
    return std::move(map_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    std::string where = "map";
    if (index_ >= 0)
      where += fmt::format(": instruction {} ({})", index_,
                           name(program_.instructions[static_cast<std::size_t>(index_)].op));
    throw InternalError({where, what, {}});
  }

  MapKind checked_kind(DType dtype) const {
    const std::optional<MapKind> kind = map_kind(dtype);
    if (!kind) fail(fmt::format("maps cannot compute in {}", lamina::name(dtype)));
    return *kind;
  }

  Value& value(int id) { return values_[static_cast<std::size_t>(id)]; }

  int new_value(DType dtype) {
    values_.push_back({.kind = checked_kind(dtype), .dtype = dtype});
    return static_cast<int>(values_.size()) - 1;
  }

  void set_register(int reg, int id) {
    if (reg < 0 || reg > 4096) fail(fmt::format("there is no register {}", reg));
    if (reg >= static_cast<int>(registers_.size()))
      registers_.resize(static_cast<std::size_t>(reg) + 1, -1);
    registers_[static_cast<std::size_t>(reg)] = id;
  }

  // Returns the value of a register; its first use adds a step that loads it.
  int read_register(int reg) {
    if (reg < 0 || reg >= static_cast<int>(registers_.size()) ||
        registers_[static_cast<std::size_t>(reg)] < 0)
      fail(fmt::format("register {} is read before it is written", reg));
    const int id = registers_[static_cast<std::size_t>(reg)];
    if (value(id).step < 0) {
      value(id).step = static_cast<int>(drafts_.size());
      drafts_.push_back({.step = {.load = value(id).operand}, .dst = id});
    }
    return id;
  }

  int add_operand(MapOperand operand, MapKind kind) {
    operand.register_bytes = register_bytes(kind);
    map_.operands.push_back(operand);
    return static_cast<int>(map_.operands.size()) - 1;
  }

  MapConvert load_function(DType dtype) const {
    if (dtype == DType::bf16) return functions_.load_bf16;
    if (dtype == DType::f16) return functions_.load_f16;
    return map_load_function(dtype);
  }
  MapConvert store_function(DType dtype) const {
    if (dtype == DType::bf16) return functions_.store_bf16;
    if (dtype == DType::f16) return functions_.store_f16;
    return map_store_function(dtype);
  }

  void add_inputs() {
    map_.num_inputs = static_cast<int>(program_.inputs.size());
    for (int i = 0; i < map_.num_inputs; ++i) {
      const MapInput& input = program_.inputs[static_cast<std::size_t>(i)];
      const int id = new_value(input.dtype);
      value(id).operand = add_operand({.dtype = input.dtype,
                                       .element_bytes = size_bytes(input.dtype),
                                       .pointer = i,
                                       .strides = input.strides,
                                       .convert = load_function(input.dtype)},
                                      value(id).kind);
      set_register(i, id);
    }
  }

  int add_step(MapFunction function, std::array<int, 3> src, DType dtype,
               MapImmediate immediate = {}) {
    return add_step(MapVariants{{function}}, src, dtype, immediate);
  }
  int add_step(const MapVariants& variants, std::array<int, 3> src, DType dtype,
               MapImmediate immediate = {}, const MapVariants& unrounded = {}) {
    const int id = new_value(dtype);
    value(id).step = static_cast<int>(drafts_.size());
    drafts_.push_back({.step = {.variants = variants, .immediate = immediate},
                       .dst = id,
                       .src = src,
                       .unrounded = unrounded});
    return id;
  }

  void add_instruction(const MapInstruction& in) {
    checked_kind(in.dtype);
    if (in.op == MapOp::iota) {
      if (in.integer < 0 || in.integer >= program_.dims.ndim())
        fail(fmt::format("there is no dim {}", in.integer));
      const int id = new_value(in.dtype);
      MapOperand operand = {.source = MapSource::iota, .dtype = in.dtype};
      operand.strides[static_cast<std::size_t>(in.integer)] = 1;
      value(id).operand = add_operand(operand, value(id).kind);
      if (in.dtype != DType::f32 && in.dtype != DType::f64 && in.dtype != DType::i32 &&
          in.dtype != DType::i64)
        fail(fmt::format("iota in {}; use f32, f64, i32 or i64", lamina::name(in.dtype)));
      return set_register(in.dst, id);
    }
    std::array<int, 3> src = {-1, -1, -1};
    for (int i = 0; i < num_sources(in.op); ++i)
      src[static_cast<std::size_t>(i)] = read_register(in.src[static_cast<std::size_t>(i)]);
    if (in.op == MapOp::cast) return set_register(in.dst, add_cast(src[0], in.dtype));
    check_kinds(in, src);
    set_register(in.dst, add_computation(in, src));
  }

  void check_kinds(const MapInstruction& in, const std::array<int, 3>& src) {
    const int first = in.op == MapOp::select ? 1 : 0;
    const MapKind kind = is_comparison(in.op) ? value(src[0]).kind : checked_kind(in.dtype);
    for (int i = first; i < num_sources(in.op); ++i)
      if (value(src[static_cast<std::size_t>(i)]).kind != kind)
        fail(fmt::format("operand {} is {}, the result {}; they must compute alike", i,
                         lamina::name(value(src[static_cast<std::size_t>(i)]).dtype),
                         lamina::name(in.dtype)));
    if (in.op == MapOp::select && value(src[0]).dtype != DType::boolean)
      fail(fmt::format("the condition is {}; it must be bool", lamina::name(value(src[0]).dtype)));
    const bool gives_bool = is_comparison(in.op);
    if (gives_bool && in.dtype != DType::boolean)
      fail(fmt::format("the result is {}; it must be bool", lamina::name(in.dtype)));
    if (!gives_bool && in.dtype == DType::boolean && in.op != MapOp::select &&
        in.op != MapOp::constant)
      fail("the result is bool; it must be a number");
  }

  int add_computation(const MapInstruction& in, const std::array<int, 3>& src) {
    const MapKind kind = is_comparison(in.op) ? value(src[0]).kind : checked_kind(in.dtype);
    const MapImmediate immediate = {in.value, in.integer};
    std::size_t first = drafts_.size();
    int id;
    if (kind == MapKind::f32) {
      bool exact = keeps_numbers(in.op);
      for (int i = in.op == MapOp::select ? 1 : 0; i < num_sources(in.op); ++i)
        exact &= value(src[static_cast<std::size_t>(i)]).dtype == in.dtype;
      const bool round = in.dtype == DType::bf16 && !exact;
      const MapVariants variants = functions_.function(in.op, round);
      if (variants.by_form[0] == nullptr) fail("there is no such operation on floating numbers");
      id = add_step(variants, src, in.dtype, immediate,
                    round ? functions_.function(in.op, false) : MapVariants{});
      if (in.dtype == DType::f16 && !exact)
        id = add_step(functions_.round_to_f16, {id, -1, -1}, in.dtype);
    } else {
      MapFunction function = map_scalar_function(in.op, kind);
      if (function == nullptr)
        fail(fmt::format("there is no such operation on {}", lamina::name(in.dtype)));
      id = add_step(function, src, in.dtype, immediate);
      if (MapFunction wrap = map_wrap_function(in.dtype); wrap && !keeps_numbers(in.op))
        id = add_step(wrap, {id, -1, -1}, in.dtype);
    }
    if (in.op == MapOp::constant)
      for (; first < drafts_.size(); ++first) value(drafts_[first].dst).once = true;
    return id;
  }

  int add_cast(int from, DType to) {
    const MapKind kind = checked_kind(to);
    const MapKind from_kind = value(from).kind;
    const DType from_dtype = value(from).dtype;
    const bool whole_register =
        to == DType::f32 || to == DType::f64 || to == DType::i32 || to == DType::i64;
    if (kind == from_kind && (to == from_dtype || whole_register)) return from;
    int id = from;
    if (kind != from_kind || kind != MapKind::f32)
      id = add_step(map_cast_function(from_kind, to), {from, -1, -1},
                    kind == MapKind::f32 ? DType::f32 : to);
    if (to == DType::bf16)
      id = add_step(functions_.function(MapOp::cast, true), {id, -1, -1}, to, {},
                    functions_.function(MapOp::cast, false));
    if (to == DType::f16) id = add_step(functions_.round_to_f16, {id, -1, -1}, to);
    return id;
  }

  void add_outputs() {
    for (int i = 0; i < static_cast<int>(program_.outputs.size()); ++i) {
      const MapOutput& output = program_.outputs[static_cast<std::size_t>(i)];
      int id = read_register(output.reg);
      // A store rounds by itself. A step is added only if the output needs another kind of
      // register.
      const MapKind kind = checked_kind(output.dtype);
      const bool store_casts = kind == MapKind::f32 && value(id).kind == MapKind::f32;
      if (!store_casts) id = add_cast(id, output.dtype);
      map_.outputs.push_back({.dtype = output.dtype,
                              .element_bytes = size_bytes(output.dtype),
                              .pointer = i,
                              .slot = id,  // the value's number until slots are assigned
                              .register_bytes = register_bytes(value(id).kind),
                              .strides = output.strides,
                              .convert = store_function(output.dtype)});
      if (output.dtype == DType::bf16 && value(id).dtype == DType::bf16)
        ++value(id).bf16_stores;
      else
        ++value(id).other_uses;
      value(id).last_use = kForever;
    }
  }

  // Removes roundings of values that are only stored as bf16, because the store rounds them.
  void drop_roundings() {
    for (const Draft& draft : drafts_)
      for (int src : draft.src)
        if (src >= 0) ++value(src).other_uses;
    for (Draft& draft : drafts_)
      if (draft.unrounded.by_form[0] && value(draft.dst).other_uses == 0 &&
          value(draft.dst).bf16_stores > 0)
        draft.step.variants = draft.unrounded;
  }

  void find_uniform_values() {
    for (const Draft& draft : drafts_)
      if (draft.step.load >= 0)
        value(draft.dst).once = map_.operands[static_cast<std::size_t>(draft.step.load)].scalar;
  }

  void allocate_slots() {
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s)
      for (int src : drafts_[static_cast<std::size_t>(s)].src)
        if (src >= 0) value(src).last_use = std::max(value(src).last_use, s);
    std::vector<int> free;
    for (Value& v : values_)
      if (v.once) {
        v.slot = map_.num_slots++;
        v.last_use = kForever;
      }
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s) {
      Draft& draft = drafts_[static_cast<std::size_t>(s)];
      draft.step.num_src = static_cast<int>(
          std::count_if(draft.src.begin(), draft.src.end(), [](int id) { return id >= 0; }));
      const auto release = [&](bool same_size) {
        for (std::size_t i = 0; i < draft.src.size(); ++i) {
          const int src = draft.src[i];
          if (src < 0 || value(src).last_use != s || value(src).slot < 0) continue;
          const bool same =
              register_bytes(value(src).kind) == register_bytes(value(draft.dst).kind);
          if (same != same_size) continue;
          free.push_back(value(src).slot);
          value(src).last_use = -1;  // avoids releasing it twice
        }
      };
      for (std::size_t i = 0; i < draft.src.size(); ++i)
        if (draft.src[i] >= 0) draft.step.src[i] = value(draft.src[i]).slot;
      // An instruction may write over a source that ends here, but only if their elements have one
      // size.
      release(true);
      Value& dst = value(draft.dst);
      if (dst.slot < 0) {
        if (free.empty()) {
          dst.slot = map_.num_slots++;
        } else {
          dst.slot = free.back();
          free.pop_back();
        }
      }
      release(false);
      if (dst.last_use < 0) free.push_back(dst.slot);  // never used
      draft.step.dst = dst.slot;
      if (draft.step.load >= 0)
        map_.operands[static_cast<std::size_t>(draft.step.load)].slot = dst.slot;
      (dst.once ? map_.once : map_.steps).push_back(draft.step);
    }
  }

  void choose_tiles() {
    int bytes = 4;
    for (const Value& v : values_) bytes = std::max(bytes, register_bytes(v.kind));
    std::int64_t tile = kMapMaxTile;
    while (tile > kMapMinTile && tile / 2 >= map_.space.num_elements) tile /= 2;
    while (tile > kMapMinTile && (map_.num_slots + 2) * tile * bytes > kMapArenaBytes * 2 / 3)
      tile /= 2;
    if (map_.num_slots > kMapMaxSlots || (map_.num_slots + 2) * tile * bytes > kMapArenaBytes)
      fail(fmt::format("{} values are needed at once; at most {} fit", map_.num_slots,
                       kMapMaxSlots));
    map_.tile_elements = tile;
    map_.slot_bytes = tile * bytes;
  }

  // Reads inputs in place if memory has the form of registers, or is bf16 and all users accept
  // that. Not if they are outputs too, because another output may overwrite them before they are
  // read.
  void allow_direct_reads() {
    for (Value& v : values_) {
      if (v.operand < 0 || v.once) continue;
      MapOperand& operand = map_.operands[static_cast<std::size_t>(v.operand)];
      if (operand.source != MapSource::memory || v.last_use == kForever) continue;
      operand.in_place = operand.convert == nullptr;
      if (operand.dtype != DType::bf16) continue;
      operand.in_place = true;
      const int id = static_cast<int>(&v - values_.data());
      for (const Draft& draft : drafts_)
        for (std::size_t i = 0; i < draft.src.size(); ++i)
          if (draft.src[i] == id)
            operand.in_place &= i < 2 && draft.step.variants.by_form[1u << i] != nullptr;
    }
  }

  // Lets a step compute directly into an output if no later step reads inputs in place, because the
  // output may be one of them.
  void allow_direct_writes() {
    int last_read = -1;
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s)
      for (int src : drafts_[static_cast<std::size_t>(s)].src)
        if (src >= 0 && value(src).operand >= 0 && !value(src).once) last_read = s;
    for (MapOperand& output : map_.outputs)
      if (value(output.slot).operand >= 0) last_read = kForever;
    for (std::size_t o = 0; o < map_.outputs.size(); ++o) {
      MapOperand& output = map_.outputs[o];
      const Value& v = value(output.slot);
      output.slot = v.slot;
      if (v.step < last_read || v.once) continue;
      MapStep& step = step_of(v);
      const bool as_bf16 = output.dtype == DType::bf16 && v.kind == MapKind::f32 &&
                           v.other_uses + v.bf16_stores == 1 && step.variants.by_form[4] != nullptr;
      output.in_place = output.convert == nullptr || as_bf16;
      if (output.in_place && step.load < 0 && step.write_to < 0)
        step.write_to = static_cast<int>(o);
    }
  }

  // Returns the step that defines a value. REQUIRES: it is no step that is done once.
  MapStep& step_of(const Value& v) {
    int index = v.step;
    for (int s = 0; s < v.step; ++s) index -= value(drafts_[static_cast<std::size_t>(s)].dst).once;
    return map_.steps[static_cast<std::size_t>(index)];
  }

  const MapProgram& program_;
  const MapFunctions& functions_;
  MapCompiled map_;
  std::vector<Value> values_;
  std::vector<int> registers_;
  std::vector<Draft> drafts_;
  int index_ = -1;  // of the instruction that errors report
};

}  // namespace

MapCompiled compile_map(const MapProgram& program) { return Compiler(program).compile(); }

}  // namespace lamina::cpu
