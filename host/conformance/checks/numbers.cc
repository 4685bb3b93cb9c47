// The numeric checks; the comparisons are in host/conformance/numbers.
#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/numbers/decoding.h"
#include "conformance/numbers/draws.h"
#include "conformance/numbers/finite_differences.h"
#include "conformance/numbers/layer_losses.h"
#include "conformance/numbers/learning.h"
#include "conformance/numbers/lookups.h"
#include "conformance/numbers/one_pass.h"
#include "conformance/numbers/positions.h"
#include "conformance/numbers/training.h"
#include "conformance/subjects/subject.h"
#include "conformance/subjects/variants.h"
#include "core/error.h"
#include "inspect/verify/verify.h"

namespace lamina::conformance {
namespace {

using CaseCheck = void (*)(const ModelCase&);

// Runs `checks` on `cases`; a model with nothing to check does not count if others do. Skipped if
// no model has anything to check.
void on_cases(const std::vector<ModelCase>& cases, const std::vector<CaseCheck>& checks) {
  std::string why;
  bool ran = false;
  for (const ModelCase& c : cases)
    for (const CaseCheck check : checks) {
      try {
        check(c);
        ran = true;
      } catch (const Skipped& nothing) {
        why = nothing.what();
      } catch (const Refused&) {
        throw;
      } catch (const Failure& found) {
        fail("model '{}': {}", c.name, found.what());
      }
    }
  if (!ran) skip("{}", why);
}

void on_cases(const FamilySubject& subject, const std::vector<CaseCheck>& checks) {
  on_cases(subject.cases(), checks);
}

// Leaves out models whose experts have capacities, for comparisons in which a token has other
// company: it may lose its expert to other tokens, which M-12 exempts. Skipped if no model is left.
std::vector<ModelCase> without_capacities(std::vector<ModelCase> cases) {
  const bool any = !cases.empty();
  std::erase_if(cases,
                [](const ModelCase& c) { return num_uses(c.open(true), "capacity_factor") > 0; });
  if (any && cases.empty())
    skip("its experts have capacities (capacity_factor), for which the tokens of a call compete");
  return cases;
}

}  // namespace

void check_gradients(const FamilySubject& subject) {
  if (!subject.at_least(Level::pedantic))
    return on_cases(subject, {[](const ModelCase& c) { check_finite_differences(c, 1); }});
  on_cases(subject, {[](const ModelCase& c) { check_finite_differences(c, 8); }});
}
void check_dead_parameters(const FamilySubject& subject) {
  on_cases(subject,
           {check_every_part_learns, check_learning_begins, check_layer_losses_have_gradients});
}

void check_decoding(const FamilySubject& subject) {
  on_cases(subject, {check_draws_are_not_compared});
  const std::vector<ModelCase> cases = without_capacities(subject.cases());
  if (!subject.at_least(Level::full)) return on_cases(cases, {check_prompt_tokens_and_prompt});
  on_cases(cases, {check_prefill_in_pieces, check_token_by_token, check_prompt_tokens_and_prompt});
  std::vector<ModelCase> switched;
  for (const SmallModel& model : switched_models(subject))
    switched.push_back(subject.model_case(model));
  try {
    on_cases(without_capacities(std::move(switched)), {check_prompt_tokens_and_prompt});
  } catch (const Skipped&) {  // none is decoded
  }
}

void check_batches(const FamilySubject& subject) {
  const std::vector<ModelCase> cases = without_capacities(
      subject.cases([&](const SmallModel& small) { return with_documents_apart(subject, small); }));
  if (!subject.at_least(Level::full))
    return on_cases(cases, {check_packed_documents_are_alone, check_rows_of_a_batch_are_alone});
  on_cases(cases, {check_packed_documents_are_alone, check_rows_of_a_batch_are_alone,
                   check_reset_is_as_new, check_ragged_batch_is_alone,
                   check_packed_documents_have_the_gradients_of_each});
}

void check_scan(const FamilySubject& subject) {
  on_cases(subject, {check_scanned_pass_is_unrolled, check_scanned_step_is_unrolled});
}
void check_remat(const FamilySubject& subject) {
  on_cases(subject, {check_remat_policies_give_the_same_bits, check_own_remat_tags});
}
void check_microbatches(const FamilySubject& subject) {
  on_cases(subject, {check_microbatches_are_one_batch, check_nothing_is_learnt_without_labels});
}
void check_layer_losses(const FamilySubject& subject) {
  on_cases(without_capacities(subject.cases()), {check_layer_losses_are_means});
}
void check_bfloat16(const FamilySubject& subject) {
  on_cases(subject, {check_bfloat16_is_near, check_finite, check_positions_are_exact});
}

void check_determinism(const FamilySubject& subject) {
  if (!subject.at_least(Level::full)) return on_cases(subject, {check_the_same_pass_twice});
  on_cases(subject, {check_the_same_pass_twice, check_threads_give_the_same_pass,
                     check_threads_decode_the_same, check_threads_give_the_same_step});
}

void check_goldens(const FamilySubject& subject) {
  if (subject.settings().goldens.empty()) skip("no golden case; use --golden DIR");
  registry::SearchPath search;
  search.files.push_back(subject.plugin().file());
  const registry::Catalog catalog = registry::Catalog::scan(std::move(search));
  for (const std::filesystem::path& golden : subject.settings().goldens) {
    const inspect::VerifyReport report = [&] {
      try {
        return inspect::verify_case(golden.string(), DType::f32, catalog,
                                    *subject.plugin().compute().backend);
      } catch (const Error& refused) {
        fail("{}: {}", golden.string(), refused.what());
      }
    }();
    if (report.passed() && !report.unread.empty())
      fail(
          "{}: family '{}' does not read {} of config.json; declare such keys, or call ignore() "
          "for those that cannot change what the model computes",
          golden.string(), subject.family().name(), fmt::join(report.unread, ", "));
    if (report.passed()) continue;
    for (const inspect::VerifyRow& row : report.rows)
      if (!row.passed())
        fail("{}: {} differs by {:.2g}, {:.2g} is allowed; see `lamina verify`", golden.string(),
             row.quantity, row.error, row.tolerance);
    fail("{}: quantities were not computed; `lamina verify` lists them", golden.string());
  }
}

void check_lookups(const FamilySubject& subject) {
  on_cases(subject, {check_lookups_are_in_the_table});
}

void check_export(const FamilySubject& subject) {
  on_cases(subject, {check_weights_survive_an_export});
}

}  // namespace lamina::conformance
