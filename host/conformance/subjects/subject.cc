#include "conformance/subjects/subject.h"

#include "config/model_keys.h"
#include "conformance/subjects/odd_configs.h"
#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::conformance {
namespace {

// By the rule that the host cites in its refusal.
std::string_view owner_of(const ErrorText& text) {
  std::string all = text.what;
  for (const std::string& note : text.notes) all += "\n" + note;
  const auto says = [&](std::string_view part) { return all.find(part) != all.npos; };
  if (says("(M-5 of docs")) return "TRC-1";
  if (says("(M-9 of docs")) return "CKP-2";
  if (says("(M-12 of docs")) return "TRC-4";
  if (text.where.find(" kernel of op '") != text.where.npos) return "GRD-3";
  if (says("(C-10 of docs")) return "LOD-1";
  if (says(" the state '")) return "TRC-7";
  return "TRC-2";
}

// The first line says what is wrong.
std::string in_lines(const ErrorText& text) {
  std::string out = text.where.empty() ? text.what : text.where + ": " + text.what;
  for (const std::string& note : text.notes) out += "\n" + note;
  return out;
}

constexpr std::size_t kQuickModels = 3;

// Constant initial parameters would hide their effects: zeros hide the other factor, equal values
// hide exchanges.
void vary_constants(const decoder::Model& model, std::uint64_t seed, DType compute,
                    weights::Weights& weights, Queue& queue) {
  using Kind = registry::InitSpec::Kind;
  for (std::size_t i = 0; i < weights.pointers().size(); ++i) {
    decoder::Parameter p = model.parameters().all()[i];
    const Kind kind = p.desc.init.kind;
    const DType dtype = p.used_dtype(compute);
    if (kind != Kind::zeros && kind != Kind::ones && kind != Kind::constant) continue;
    if (!is_floating(dtype)) continue;
    const double value = kind == Kind::zeros ? 0 : kind == Kind::ones ? 1 : p.desc.init.a;
    std::vector<float> values(static_cast<std::size_t>(p.num_elements()));
    p.desc.init = {Kind::uniform, value - 0.1, value + 0.1};
    weights::initialise(p, seed, values);
    write_tensor<std::byte>(
        queue, weights.own_tensor(static_cast<int>(i)),
        [&](std::span<std::byte> out) { weights::store(values, dtype, 0, out.data()); });
  }
}

// A refusal by a plugin belongs to the check that owns the rule.
template <typename Make>
auto or_refused(Make&& make) {
  try {
    return make();
  } catch (const PluginError& refused) {
    throw Refused(refused.text());
  } catch (const UserError& refused) {
    throw Refused(refused.text());
  }
}

// The models made here need the family to outlive them.
decoder::Model open_with(const SmallModel& model, const registry::Family& family,
                         bool scan_layers) {
  return or_refused([&] {
    const std::shared_ptr<const registry::Family> shared(&family, [](const registry::Family*) {});
    return decoder::Model(shared, family.configure(model.source.raw, model.source.where),
                          {.scan_layers = scan_layers, .compress_tokens = tokens_of_two});
  });
}

// Leaves out options of the host by which decoding differs from training in any model.
SmallModel without_host_changes(const registry::Family& family, SmallModel model) {
  for (const std::string_view name : {config::kKvDtype, config::kRandomRouting})
    if (const registry::ModelKey* key = family.find_key(name); key && key->host)
      model.source = without_value(std::move(model.source), key->key);
  return model;
}

}  // namespace

Refused::Refused(const ErrorText& text) : Failure(in_lines(text)), owner_(owner_of(text)) {}

FamilySubject::FamilySubject(const PluginSubject& plugin, const registry::Family& family,
                             const lamina_family& source, SmallModels models)
    : plugin_(plugin), family_(family), source_(source), models_(std::move(models)) {}

const std::vector<SmallModel>& FamilySubject::models() const {
  if (models_.models.empty())
    throw Refused({"no small model",
                   "none can be derived from the keys:" + models_.why_none,
                   {fmt::format("describe one in {}/NAME.toml, or give --model FILE",
                                models_folder(plugin_.file()).filename().string())}});
  return models_.models;
}

registry::ModelConfig FamilySubject::configure(const SmallModel& model) const {
  return or_refused([&] { return family_.configure(model.source.raw, model.source.where); });
}

decoder::Model FamilySubject::open(const SmallModel& model, const registry::Family& family) const {
  return open_with(model, family, true);
}
decoder::Model FamilySubject::open(const SmallModel& model, bool scan_layers) const {
  return open_with(model, family_, scan_layers);
}

ModelCase FamilySubject::model_case(const SmallModel& model) const {
  const std::uint64_t seed = settings().seed;
  const Compute& compute = plugin_.compute();
  return {.name = model.name,
          .open = [this, plain = without_host_changes(family_, model)](
                      bool scan_layers) { return open(plain, scan_layers); },
          .load =
              [seed, compute](const decoder::Model& of, DType dtype) {
                weights::Weights out =
                    weights::Weights::initialise(of, seed, dtype, *compute.backend);
                vary_constants(of, seed, dtype, out, compute.backend->context().queue());
                return out;
              },
          .compute = compute};
}

std::vector<ModelCase> FamilySubject::cases(
    const std::function<SmallModel(const SmallModel&)>& change) const {
  std::vector<ModelCase> out;
  for (const SmallModel& model : models()) {
    if (!at_least(Level::full) && out.size() == kQuickModels) break;
    out.push_back(model_case(change ? change(model) : model));
  }
  return out;
}

}  // namespace lamina::conformance
