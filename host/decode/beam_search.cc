#include "decode/beam_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/stopwatch.h"
#include "decode/penalties.h"
#include "decode/shown_text.h"

namespace lamina::decode {
namespace {

// Below the score of any real sequence.
constexpr double kNoScore = -1e9;

struct Beam {
  std::vector<std::int32_t> tokens = {};  // of the output
  double score = kNoScore;  // sum of log probabilities; for ended beams divided by the length
  StopReason reason = StopReason::interrupted;
};

// A beam with one more token.
struct Candidate {
  double score;
  std::size_t beam;
  std::int32_t token;
  std::optional<StopReason> ends = {};
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

class Search {
 public:
  // The session has read the prompt.
  Search(Session& session, std::size_t prompt, const text::Tokenizer* tokenizer,
         const GenerateOptions& options)
      : session_(session),
        prompt_(prompt),
        tokenizer_(tokenizer),
        options_(options),
        beams_(static_cast<std::size_t>(options.num_beams)),
        running_(beams_) {
    running_[0].score = 0;  // all beams are equal at the start, so one counts
    if (tokenizer && !options.stop.empty() && !options.begins_text)
      before_ = last_text_tokens(*tokenizer, session.tokens());
  }

  // Adds a token to every beam, by the logits after its last token. False if the search is over.
  bool step(std::span<const float> logits) {
    std::vector<Candidate> best = best_candidates(logits);
    if (best.front().score == -INFINITY) refuse_empty(prompt_ + length_);
    ++length_;
    for (Candidate& c : best) c.ends = end_of(c);
    add_ended(best);
    const bool all_end = std::ranges::all_of(best, [](const Candidate& c) { return !!c.ends; });
    advance(std::move(best));
    return !all_end && can_improve();
  }

  // The next token of each beam.
  std::vector<std::span<const std::int32_t>> next() const {
    std::vector<std::span<const std::int32_t>> out;
    for (const Beam& beam : running_) out.push_back(std::span(&beam.tokens.back(), 1));
    return out;
  }

  const Beam& best() const { return ended_.empty() ? running_.front() : ended_.front(); }

 private:
  // More candidates than beams, so that enough continue whichever of them end.
  std::vector<Candidate> best_candidates(std::span<const float> logits) {
    const std::size_t keep = std::max<std::size_t>(2, 1 + options_.end_tokens.size()) * beams_;
    const std::size_t vocab = logits.size() / beams_;
    std::vector<Candidate> out;  // a heap with the worst on top
    std::vector<float> row;
    for (std::size_t b = 0; b < beams_; ++b) {
      const std::span<const float> of_beam = logits.subspan(b * vocab, vocab);
      check_logits(of_beam, static_cast<std::int64_t>(prompt_ + length_));
      const double shift = log_probability(of_beam, 0) - static_cast<double>(of_beam[0]);
      row.resize(vocab);
      for (std::size_t i = 0; i < vocab; ++i)
        row[i] = static_cast<float>(static_cast<double>(of_beam[i]) + shift);
      apply_penalties(options_.sampler, session_.tokens(static_cast<std::int64_t>(b)), length_,
                      Logits(row));
      for (std::size_t i = 0; i < vocab; ++i) {
        const Candidate c{static_cast<double>(row[i]) + running_[b].score, b,
                          static_cast<std::int32_t>(i)};
        if (out.size() == keep && !better(c, out.front())) continue;
        if (out.size() == keep) {
          std::ranges::pop_heap(out, better);
          out.pop_back();
        }
        out.push_back(c);
        std::ranges::push_heap(out, better);
      }
    }
    std::ranges::sort(out, better);
    return out;
  }

  std::vector<std::int32_t> tokens_of(const Candidate& c) const {
    std::vector<std::int32_t> out = running_[c.beam].tokens;
    out.push_back(c.token);
    return out;
  }

  std::optional<StopReason> end_of(const Candidate& c) const {
    if (!options_.ignore_end &&
        std::ranges::find(options_.end_tokens, c.token) != options_.end_tokens.end())
      return StopReason::end_token;
    if (tokenizer_ && !options_.stop.empty()) {
      const std::string text = text_after(*tokenizer_, before_, tokens_of(c));
      for (const std::string& stop : options_.stop)
        if (text.find(stop) != text.npos) return StopReason::stop_string;
    }
    if (static_cast<std::int64_t>(length_) == options_.max_new_tokens) return StopReason::length;
    return {};
  }

  // Only the first `beams_` candidates count as ended: the others replace beams that ended.
  void add_ended(const std::vector<Candidate>& candidates) {
    for (std::size_t i = 0; i < std::min(beams_, candidates.size()); ++i) {
      const Candidate& c = candidates[i];
      if (!c.ends || c.score <= kNoScore) continue;
      ended_.push_back({tokens_of(c), c.score / weight(length_), *c.ends});
    }
    std::ranges::stable_sort(ended_, std::greater(), &Beam::score);
    if (ended_.size() > beams_) ended_.resize(beams_);
  }

  void advance(std::vector<Candidate> candidates) {
    for (Candidate& c : candidates)
      if (c.ends) c.score += kNoScore;
    std::ranges::stable_sort(candidates, std::greater(), &Candidate::score);
    std::vector<Beam> next;
    std::vector<std::size_t> parents;
    for (const Candidate& c : candidates) {
      if (next.size() == beams_) break;
      next.push_back({tokens_of(c), c.score});
      parents.push_back(c.beam);
    }
    while (next.size() < beams_) {  // for a vocabulary smaller than the number of beams
      next.push_back(next.back());
      next.back().score = kNoScore;
      parents.push_back(parents.back());
    }
    running_ = std::move(next);
    session_.reorder(parents);
  }

  bool can_improve() const {
    if (ended_.size() < beams_) return true;
    if (options_.early_stopping == EarlyStopping::yes) return false;
    const bool to_the_end =
        options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
    const double length =
        weight(to_the_end ? static_cast<std::size_t>(options_.max_new_tokens) : length_);
    return running_.front().score / length > ended_.back().score;
  }

  double weight(std::size_t length) const {
    return std::pow(static_cast<double>(length), options_.length_penalty);
  }

  Session& session_;
  std::size_t prompt_, length_ = 0;  // tokens of the prompt, and of each beam's output
  const text::Tokenizer* tokenizer_;
  const GenerateOptions& options_;
  std::vector<std::int32_t> before_;  // tokens of the prompt that determine how the text begins
  std::size_t beams_;
  std::vector<Beam> running_, ended_;  // best first
};

}  // namespace

Generated beam_search(Session& session, std::span<const std::int32_t> prompt,
                      const text::Tokenizer* tokenizer, const GenerateOptions& options,
                      const std::function<void(std::string_view)>& emit,
                      const std::function<bool()>& should_stop) {
  const Stopwatch watch;
  Generated out;
  ShownText shown(tokenizer, options, emit, out.text);
  if (!options.begins_text) {
    shown.follow(session.tokens());
    shown.follow(prompt);
  }
  const std::vector<std::span<const std::int32_t>> prompts(
      static_cast<std::size_t>(options.num_beams), prompt);
  std::span<const float> logits = session.append(prompts);
  out.prompt_seconds = watch.seconds();
  Search search(session, prompt.size(), tokenizer, options);
  bool interrupted = false;
  while (search.step(logits)) {
    interrupted = should_stop && should_stop();
    if (interrupted) break;
    logits = session.append(search.next());
  }
  const Beam& best = search.best();
  out.tokens = best.tokens;
  out.reason = interrupted ? StopReason::interrupted : best.reason;
  if (best.reason == StopReason::end_token) out.tokens.pop_back();
  for (const std::int32_t token : out.tokens) shown.push(token);
  shown.finish();
  out.total_seconds = watch.seconds();
  return out;
}

}  // namespace lamina::decode
