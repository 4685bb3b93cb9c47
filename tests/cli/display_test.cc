// The display of a run: numbers, progress lines, curves, signals.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "cli/shell/signals.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "cli/train/loss_curve.h"
#include "cli/train/progress.h"
#include "core/log.h"
#include "support/sanitizers.h"

namespace lamina::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

const StepReport kReport = {120, 2000, 2.4313, 0.8375, 2e-5, 4096};
const Pace kPace = {2.4551, 41210, 4350};

TEST(Units, Example) {
  EXPECT_EQ(count_text(41210), "41.2k");
  EXPECT_EQ(duration_text(4350), "1h12m");
  EXPECT_EQ(bytes_text(1536.0 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(thousands_text(-1234567), "-1,234,567");
}

TEST(Units, RoundUpToTheNextUnit) {
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(999.6), "1.00k");
  EXPECT_EQ(count_text(9999), "10.0k");
  EXPECT_EQ(count_text(99960), "100k");
  EXPECT_EQ(count_text(999600), "1.00M");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(thousands_text(999), "999");
  EXPECT_EQ(thousands_text(1000), "1,000");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(86400), "1d00h");
  EXPECT_EQ(duration_text(NAN), "?");
  EXPECT_EQ(duration_text(-1), "?");
}

TEST(Units, TimesAndRatesHaveThreeDigits) {
  EXPECT_EQ(milliseconds_text(0), "0.00 us");
  EXPECT_EQ(milliseconds_text(8.524e-6), "8.52 us");
  EXPECT_EQ(milliseconds_text(0.0009994), "999 us");
  EXPECT_EQ(milliseconds_text(0.0009996), "1.00 ms");
  EXPECT_EQ(milliseconds_text(0.01768), "17.7 ms");
  EXPECT_EQ(milliseconds_text(0.466), "466 ms");
  EXPECT_EQ(milliseconds_text(1.927), "1,927 ms");
  EXPECT_EQ(milliseconds_text(NAN), "? ms");
  EXPECT_EQ(token_rate_text(7.411), "7.41 tok/s");
  EXPECT_EQ(token_rate_text(12.34), "12.3 tok/s");
  EXPECT_EQ(token_rate_text(466.2), "466 tok/s");
  EXPECT_EQ(token_rate_text(1155), "1.16k tok/s");
  EXPECT_EQ(token_rate_text(INFINITY), "? tok/s");
}

TEST(PlainLine, Example) {
  EXPECT_EQ(plain_line(kReport, kPace),
            "step  120/2000  loss 2.4313  ema 2.4551  gnorm 0.84  lr 2.00e-05  41.2k tok/s  "
            "eta 1h12m");
}

TEST(PlainLine, SkipsUnknownNumbers) {
  EXPECT_EQ(plain_line(kReport, {2.5, 0, -1}),
            "step  120/2000  loss 2.4313  ema 2.5000  gnorm 0.84  lr 2.00e-05");
}

TEST(BarLine, Example) {
  EXPECT_EQ(bar_line(kReport, kPace, 120, false),
            "#----------------------- step  120/2000   6.0%  loss 2.431  ema 2.455  gnorm 0.84  "
            "lr 2.00e-05  41.2k tok/s  eta 1h12m");
}

TEST(BarLine, HasTheTrainingLossIfItDiffers) {
  StepReport report = kReport;
  report.total_loss = 2.5;
  EXPECT_THAT(bar_line(report, kPace, 140, false), HasSubstr("loss 2.431  total 2.500  ema 2.455"));
}

TEST(BarLine, TheBarHasTheSameLengthAllRun) {
  const auto bar_width = [](const StepReport& report, const Pace& pace, int columns) {
    return bar_line(report, pace, columns, false).find("step");
  };
  for (const int columns : {79, 99, 120})
    for (const Pace& pace : {Pace{2.4551, 0, -1}, Pace{2.4551, 466, 9.83}, Pace{2.4551, 9.12, 11},
                             Pace{2.4551, 41210, 3599}})
      for (const std::int64_t step : {1, 2000}) {
        StepReport report = kReport;
        report.step = step;
        EXPECT_EQ(bar_width(report, pace, columns), bar_width(kReport, kPace, columns))
            << columns << " columns: " << bar_line(report, pace, columns, false);
      }
}

TEST(BarLine, NeverIsWiderThanTheTerminal) {
  for (int columns = 20; columns < 200; ++columns)
    for (bool unicode : {false, true})
      EXPECT_LE(display_width(bar_line(kReport, kPace, columns, unicode)), columns);
}

TEST(BarLine, KeepsStepAndLossWhenNarrow) {
  EXPECT_EQ(bar_line(kReport, kPace, 28, false), "step  120/2000  loss 2.431");
}

TEST(PaceMeter, LeavesTheFirstStepOutOfTheSpeed) {
  PaceMeter meter;
  PaceMeter::Clock::time_point start;
  StepReport report{1, 11, 4.0, 1, 1, 100};
  EXPECT_LT(meter.add(report, start).seconds_left, 0);
  report.step = 2;
  Pace pace = meter.add(report, start + std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ(pace.tokens_per_second, 50);
  EXPECT_DOUBLE_EQ(pace.seconds_left, 18);
  EXPECT_DOUBLE_EQ(pace.loss_average, 4.0);
}

TEST(ProgressDisplay, PlainLinesComeEveryFewStepsAndAtTheEnd) {
  CaptureStderr();
  ProgressDisplay progress(ProgressDisplay::Style::plain, 2);
  for (int step = 1; step <= 5; ++step) progress.report({step, 5, 1, 1, 1, 1});
  std::string text = GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("step 2/5"));
  EXPECT_THAT(text, HasSubstr("step 5/5"));
}

TEST(ProgressDisplay, MessagesAppearAboveTheBar) {
  CaptureStderr();
  {
    ProgressDisplay progress(ProgressDisplay::Style::bar, 1);
    progress.report({1, 2, 1, 1, 1, 1});
    log::info("saved");
    progress.report({2, 2, 1, 1, 1, 1});
  }
  std::string text = GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("\r\033[Ksaved\n\r"));
  EXPECT_THAT(text, HasSubstr("step 2/2"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(ProgressDisplay, RepaintsAtMostTenTimesASecond) {
  CaptureStderr();
  {
    ProgressDisplay progress(ProgressDisplay::Style::bar, 1);
    for (int step = 1; step <= 1000; ++step) progress.report({step, 100000, 1, 1, 1, 1});
  }
  std::string text = GetCapturedStderr();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 5);
}

TEST(LossCurve, Example) {
  std::vector<CurvePoint> training;
  for (int step = 1; step <= 100; ++step) training.push_back({step, 5.0 / std::sqrt(step)});
  std::string picture = loss_curve(training, {{100, 0.7}}, 40, 5);
  EXPECT_EQ(picture,
            "  4.27 |.\n"
            "       |\n"
            "  2.38 | .\n"
            "       |  ......\n"
            "  0.50 |        .......................o\n"
            "       +--------------------------------\n"
            "  step  1                            100\n"
            "        . training loss   o validation loss\n");
}

TEST(LossCurve, IsEmptyWithoutTwoFiniteLosses) {
  EXPECT_EQ(loss_curve({}, {}), "");
  EXPECT_EQ(loss_curve({{1, 2.0}, {2, NAN}}, {}), "");
}

TEST(LossCurve, ConstantLossIsALine) {
  EXPECT_THAT(loss_curve({{1, 2.0}, {2, 2.0}}, {}, 30, 3), HasSubstr("  2.00 |.           "));
}

TEST(StopSignals, FirstAsksAndSecondEndsTheProcess) {
  if (testing::kThreadSanitized)
    GTEST_SKIP() << "ThreadSanitizer delivers a signal at a later call, here after the last";
  EXPECT_EXIT(
      {
        catch_stop_signals();
        if (stop_signal() != 0) _exit(1);
        raise(SIGINT);
        if (stop_signal() != SIGINT) _exit(2);
        raise(SIGINT);
      },
      ::testing::ExitedWithCode(130), "stopping; a second signal");
}

TEST(StopSignals, UserSignalAsksForOneCheckpoint) {
  EXPECT_EXIT(
      {
        catch_save_signals();
        raise(SIGUSR1);
        if (!take_save_request()) _exit(2);
        raise(SIGUSR2);
        _exit(take_save_request() && !take_save_request() && stop_signal() == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalFaults, SignalsThatTheParentIgnoresStayIgnored) {
  auto ignore_and_raise = [] {
    for (int signal : {SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
    catch_stop_signals();
    for (int signal : {SIGTERM, SIGHUP}) raise(signal), raise(signal);
    _exit(stop_signal() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(ignore_and_raise(), ::testing::ExitedWithCode(0), "");
}

// Ends with the signal that Ctrl-C sends on this process's controlling terminal.
[[noreturn]] void press_ctrl_c(void (*before)(int), void (*catch_it)() = catch_stop_signals) {
  std::signal(SIGINT, before);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (grantpt(terminal) != 0 || unlockpt(terminal) != 0 || setsid() < 0) _exit(99);
  if (open(ptsname(terminal), O_RDWR) < 0) _exit(99);  // the first becomes the controlling one
  catch_it();
  if (write(terminal, "\x03", 1) != 1) _exit(99);
  usleep(50'000);
  _exit(take_interrupt() ? SIGINT : stop_signal());
}

TEST(SignalFaults, CtrlCDoesNotReachJobsInTheBackground) {
  EXPECT_EXIT(press_ctrl_c(SIG_DFL), ::testing::ExitedWithCode(SIGINT),
              "stopping; a second signal");
  EXPECT_EXIT(press_ctrl_c(SIG_IGN), ::testing::ExitedWithCode(0), "");
  auto killed = [] {
    std::signal(SIGINT, SIG_IGN);
    catch_stop_signals();
    kill(getpid(), SIGINT);
    _exit(stop_signal());
  };
  EXPECT_EXIT(killed(), ::testing::ExitedWithCode(SIGINT), "stopping; a second signal");
}

TEST(SignalFaults, CtrlCDoesNotReachChatsInTheBackground) {
  EXPECT_EXIT(press_ctrl_c(SIG_DFL, catch_interrupts), ::testing::ExitedWithCode(SIGINT), "");
  EXPECT_EXIT(press_ctrl_c(SIG_IGN, catch_interrupts), ::testing::ExitedWithCode(0), "");
  auto killed = [] {
    std::signal(SIGINT, SIG_IGN);
    catch_interrupts();
    kill(getpid(), SIGINT);
    _exit(take_interrupt() ? SIGINT : 0);
  };
  EXPECT_EXIT(killed(), ::testing::ExitedWithCode(SIGINT), "");
}

}  // namespace
}  // namespace lamina::cli
