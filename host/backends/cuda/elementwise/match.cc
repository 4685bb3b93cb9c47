// Brings a program into the form of ready.h, where conversions between f32 and the type of the
// operands are no steps, and compares.
#include "backends/cuda/elementwise/match.h"

#include <algorithm>
#include <vector>

#include "runtime/map/dims.h"

namespace lamina::cuda {
namespace {

// A register: a value of the program, maybe rounded since, which ready-made maps have no step for.
struct ReadyRegister {
  int value = -1;
  bool rounded = false;
};

class ReadyForm {
 public:
  explicit ReadyForm(const MapProgram& program) : program_(program) {}

  // Returns false if the program has no such form.
  bool find() {
    if (program_.inputs.empty() || program_.instructions.size() > kMostInstructions) return false;
    dtype_ = program_.inputs[0].dtype;
    if (dtype_ != DType::f32 && dtype_ != DType::bf16) return false;
    if (!operands_fit()) return false;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      registers_.push_back({static_cast<int>(i), false});
    for (const MapInstruction& in : program_.instructions)
      if (!add(in)) return false;
    for (const MapOutput& output : program_.outputs)
      outputs_.push_back(registers_.at(static_cast<std::size_t>(output.reg)).value);
    return true;
  }

  DType dtype() const { return dtype_; }
  const std::vector<float>& numbers() const { return numbers_; }

  bool same_as(const ReadyMap& map) const {
    const auto count = [](const auto& list) { return static_cast<int>(list.size()); };
    if (map.num_inputs != count(program_.inputs) || map.num_steps != count(steps_) ||
        map.num_outputs != count(outputs_))
      return false;
    if (!std::equal(outputs_.begin(), outputs_.end(), map.outputs)) return false;
    for (int k = 0; k < map.num_steps; ++k) {
      const ReadyStep &a = steps_[static_cast<std::size_t>(k)], &b = map.steps[k];
      if (a.op != b.op || a.a != b.a || a.b != b.b) return false;
      if (rounds(k) != (b.rounds && dtype_ != DType::f32)) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kMostInstructions = 48;

  bool operands_fit() const {
    if (program_.inputs.size() + program_.outputs.size() > kMostReadyOperands) return false;
    const MapStrides whole = contiguous_strides(program_.dims);
    const auto fits = [&](const auto& operand) {
      if (operand.dtype != dtype_) return false;
      for (int d = 0; d < program_.dims.ndim(); ++d) {
        const auto i = static_cast<std::size_t>(d);
        if (program_.dims[d] != 1 && operand.strides[i] != whole[i]) return false;
      }
      return true;
    };
    return std::ranges::all_of(program_.inputs, fits) &&
           std::ranges::all_of(program_.outputs, fits);
  }

  // Numbers that only outputs take are rounded when they are stored.
  bool rounds(int step) const {
    const auto k = static_cast<std::size_t>(step);
    return steps_[k].rounds && read_[k];
  }

  bool add(const MapInstruction& in) {
    ReadyStep step{.op = in.op};
    int* const sources[] = {&step.a, &step.b};
    if (num_sources(in.op) > 2 || num_sources(in.op) == 0 || is_comparison(in.op)) return false;
    if (in.dtype != DType::f32 && in.dtype != dtype_) return false;
    bool exact = keeps_numbers(in.op);
    for (int i = 0; i < num_sources(in.op); ++i) {
      const ReadyRegister& source =
          registers_.at(static_cast<std::size_t>(in.src[static_cast<std::size_t>(i)]));
      if (source.rounded) return false;
      *sources[i] = source.value;
      exact &= types_of_registers(in.src[static_cast<std::size_t>(i)]) == in.dtype;
    }
    if (in.op == MapOp::cast) {
      registers_.push_back({step.a, in.dtype != DType::f32 && !exact});
      return true;
    }
    const auto num_inputs = static_cast<int>(program_.inputs.size());
    for (const int* source : sources)
      if (*source >= num_inputs) read_[static_cast<std::size_t>(*source - num_inputs)] = true;
    step.rounds = in.dtype != DType::f32 && !exact;
    registers_.push_back({num_inputs + static_cast<int>(steps_.size()), false});
    steps_.push_back(step);
    read_.push_back(false);
    numbers_.push_back(static_cast<float>(in.value));
    return true;
  }

  // Programs of translate.h write each register once, in order.
  DType types_of_registers(int reg) const {
    const auto i = static_cast<std::size_t>(reg), num_inputs = program_.inputs.size();
    return i < num_inputs ? program_.inputs[i].dtype : program_.instructions[i - num_inputs].dtype;
  }

  const MapProgram& program_;
  DType dtype_ = DType::f32;
  std::vector<ReadyRegister> registers_;
  std::vector<ReadyStep> steps_;
  std::vector<bool> read_;  // by other steps
  std::vector<float> numbers_;
  std::vector<int> outputs_;
};

std::string ready_name(const ReadyForm& form) {
#define LAMINA_READY_NAME(of_map, map) \
  if (form.same_as(map)) return "ready_" #of_map "_" + std::string(name(form.dtype()));
  LAMINA_READY_MAPS(LAMINA_READY_NAME)
  if (form.dtype() != DType::bf16) return {};
  LAMINA_READY_BF16_MAPS(LAMINA_READY_NAME)
  return {};
}

// Returns the kernel of a program that only converts its operand, or "".
std::string cast_name(const MapProgram& program) {
  if (program.inputs.size() != 1 || program.outputs.size() != 1) return {};
  if (program.instructions.size() != 1 || program.instructions[0].op != MapOp::cast) return {};
  const DType from = program.inputs[0].dtype, to = program.outputs[0].dtype;
  if (program.instructions[0].dtype != to) return {};
  MapStrides strides = program.inputs[0].strides;
  MapStrides* const operands[] = {&strides};
  if (!merge_dims(program.dims, operands).contiguous(strides)) return {};
#define LAMINA_CAST_NAME(from_name, From, to_name, To) \
  if (from == DType::from_name && to == DType::to_name) return "cast_" #from_name "_" #to_name;
  LAMINA_READY_CASTS(LAMINA_CAST_NAME)
  return {};
}

}  // namespace

std::optional<ReadyKernel> find_ready(const MapProgram& program) {
  ReadyKernel ready{.name = cast_name(program), .params = {}};
  ready.params.num_elements = program.dims.num_elements();
  if (!ready.name.empty()) return ready;
  ReadyForm form(program);
  if (!form.find()) return std::nullopt;
  ready.name = ready_name(form);
  if (ready.name.empty()) return std::nullopt;
  std::ranges::copy(form.numbers(), ready.params.numbers);
  return ready;
}

}  // namespace lamina::cuda
