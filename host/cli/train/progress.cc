// The training display: smoothing, layout, painting.
#include "cli/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/log.h"
#include "core/write_all.h"

namespace lamina::cli {
namespace {

constexpr double kAverageSteps = 20;
constexpr auto kRepaintInterval = std::chrono::milliseconds(100);

// "step   120/2000", with the same width at every step of a run.
std::string step_text(const StepReport& report) {
  std::string total = fmt::format("{}", report.total_steps);
  return fmt::format("step {:>{}}/{}", report.step, total.size(), total);
}

std::string lr_text(double lr) { return fmt::format("lr {:.2e}", lr); }

std::string speed_text(const Pace& pace) {
  return pace.tokens_per_second > 0 ? token_rate_text(pace.tokens_per_second) : "";
}

std::string eta_text(const Pace& pace) {
  return pace.seconds_left >= 0 ? "eta " + duration_text(pace.seconds_left) : "";
}

std::string bar(double fraction, int width, bool unicode) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width * 8);
  int full = eighths / 8;
  std::string out;
  for (int i = 0; i < full; ++i) out += unicode ? "█" : "#";
  if (unicode && eighths % 8 > 0) out += kEighths[eighths % 8], ++full;
  for (int i = full; i < width; ++i) out += unicode ? "░" : "-";
  return out;
}

// A failure to write a progress line does not stop a run.
void write_stderr(std::string_view text) { (void)write_all(STDERR_FILENO, text); }

}  // namespace

std::string plain_line(const StepReport& report, const Pace& pace) {
  std::string out = fmt::format(
      "{}  loss {:.4f}{}{}  ema {:.4f}  gnorm {:.2f}  {}", step_text(report), report.loss,
      report.total_loss != report.loss ? fmt::format("  total {:.4f}", report.total_loss) : "",
      report.task.empty() ? "" : "  " + report.task, pace.loss_average, report.grad_norm,
      lr_text(report.lr));
  for (const std::string& field : {speed_text(pace), eta_text(pace)})
    if (!field.empty()) out += "  " + field;
  return out;
}

std::string bar_line(const StepReport& report, const Pace& pace, int columns, bool unicode) {
  double fraction = report.total_steps > 0
                        ? static_cast<double>(report.step) / static_cast<double>(report.total_steps)
                        : 0.0;
  // In the order of the line; fields with a higher rank are omitted first. The bar leaves room for
  // usual widths, also of fields that are not known yet, so that its length stays the same.
  struct FieldText {
    std::string text;
    int rank;
    int usual_width = 0;
  };
  std::vector<FieldText> fields = {
      {step_text(report), 0},
      {fmt::format("{:4.1f}%", 100 * fraction), 2, display_width("100.0%")},
      {fmt::format("loss {:.3f}", report.loss), 1},
      {report.total_loss != report.loss ? fmt::format("total {:.3f}", report.total_loss) : "", 5},
      {report.task, 2},
      {fmt::format("ema {:.3f}", pace.loss_average), 5},
      {fmt::format("gnorm {:.2f}", report.grad_norm), 6},
      {lr_text(report.lr), 7},
      {speed_text(pace), 4, display_width("41.2k tok/s")},
      {eta_text(pace), 3, display_width("eta 59m59s")},
  };
  auto join = [&](int highest_rank) {
    std::string out;
    for (const FieldText& field : fields)
      if (field.rank <= highest_rank && !field.text.empty())
        out += (out.empty() ? "" : "  ") + field.text;
    return out;
  };
  auto usual_width = [&](int highest_rank) {
    int out = -2;
    for (const FieldText& field : fields)
      if (const int width = std::max(display_width(field.text), field.usual_width);
          field.rank <= highest_rank && width > 0)
        out += 2 + width;
    return out;
  };
  constexpr int kNarrowestBar = 8, kWidestBar = 30, kGap = 1;
  int rank = 7;
  while (rank > 0 && usual_width(rank) > columns) --rank;
  std::string text = join(rank);
  if (display_width(text) > columns) return text.substr(0, static_cast<std::size_t>(columns));
  int room = std::min(columns - usual_width(rank) - kGap, kWidestBar);
  return room < kNarrowestBar ? text : bar(fraction, room, unicode) + " " + text;
}

Pace PaceMeter::add(const StepReport& report, Clock::time_point now) {
  double decay = 1 - 1 / kAverageSteps;
  weighted_loss_ = decay * weighted_loss_ + report.loss / kAverageSteps;
  loss_weight_ = decay * loss_weight_ + 1 / kAverageSteps;
  Pace pace;
  pace.loss_average = weighted_loss_ / loss_weight_;
  if (num_reports_++ > 0) {
    double seconds = std::chrono::duration<double>(now - last_).count();
    // The mean of the first steps, then an exponential average, which recovers after a suspension.
    double share = 1 / std::min(static_cast<double>(num_reports_ - 1), kAverageSteps);
    seconds_per_step_ += share * (seconds - seconds_per_step_);
    tokens_per_step_ += share * (static_cast<double>(report.tokens) - tokens_per_step_);
    if (seconds_per_step_ > 0) {
      pace.tokens_per_second = tokens_per_step_ / seconds_per_step_;
      pace.seconds_left = seconds_per_step_ * static_cast<double>(std::max<std::int64_t>(
                                                  report.total_steps - report.step, 0));
    }
  }
  last_ = now;
  return pace;
}

ProgressDisplay::ProgressDisplay(Style style, std::int64_t every_steps, ColorMode color)
    : style_(style), every_steps_(std::max<std::int64_t>(every_steps, 1)), color_(color) {
  if (style_ == Style::automatic)
    style_ = describe_terminal(STDERR_FILENO, color).animated ? Style::bar : Style::plain;
  unicode_ = locale_is_utf8();
  if (style_ == Style::bar)
    log::set_before_terminal([this] {
      std::lock_guard lock(mutex_);
      clear();
    });
}

ProgressDisplay::~ProgressDisplay() {
  if (style_ == Style::bar) log::set_before_terminal({});
  finish();
}

void ProgressDisplay::report(const StepReport& report) {
  auto now = PaceMeter::Clock::now();
  bool last_step = report.step == report.total_steps;
  std::string line;
  {
    std::lock_guard lock(mutex_);
    Pace pace = meter_.add(report, now);
    if (style_ == Style::bar && (last_step || now - last_paint_ >= kRepaintInterval)) {
      last_paint_ = now;
      paint(report, pace);
    }
    if (style_ == Style::plain && (last_step || report.step % every_steps_ == 0))
      line = plain_line(report, pace);
  }
  if (!line.empty()) log::info("{}", line);
}

void ProgressDisplay::finish() {
  std::lock_guard lock(mutex_);
  if (!painted_.empty()) write_stderr("\n");
  painted_.clear();
}

void ProgressDisplay::paint(const StepReport& report, const Pace& pace) {
  Terminal terminal = describe_terminal(STDERR_FILENO, color_);  // its width may have changed
  // The last column stays free: some terminals wrap when it is written.
  painted_ = bar_line(report, pace, terminal.columns - 1, unicode_);
  write_stderr("\r" + painted_ + "\033[K");
}

void ProgressDisplay::clear() {
  if (!painted_.empty()) write_stderr("\r\033[K");
  painted_.clear();
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

}  // namespace lamina::cli
