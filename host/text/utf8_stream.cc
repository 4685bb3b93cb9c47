#include "text/utf8_stream.h"

#include <utility>

#include "core/utf8.h"

namespace lamina::text {

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  // Only the last three bytes can belong to an incomplete valid character.
  for (std::size_t back = 1; back <= 3 && back <= pending_.size(); ++back)
    if (utf8_step(std::string_view(pending_).substr(pending_.size() - back)).cut) return "";
  std::string ready = replace_invalid_utf8(pending_);
  pending_.clear();
  return ready;
}

std::string Utf8Stream::finish() {
  std::string rest = replace_invalid_utf8(pending_);
  pending_.clear();
  return rest;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string StopMatcher::push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  for (std::size_t at = 0; at < held_.size(); ++at) {
    const std::string_view rest = std::string_view(held_).substr(at);
    bool may_become_one = false;
    for (const std::string& stop : stops_) {
      if (rest.starts_with(stop)) found_ = stop;
      may_become_one |= std::string_view(stop).starts_with(rest);
      if (found_) break;
    }
    if (found_ || may_become_one) {
      std::string before = held_.substr(0, at);
      held_.erase(0, at);
      return before;
    }
  }
  return std::exchange(held_, {});
}

std::string StopMatcher::finish() {
  if (found_) return "";
  std::size_t first = held_.npos;  // a shorter stop string inside the begin of a longer one
  for (const std::string& stop : stops_)
    if (const std::size_t at = held_.find(stop); at < first) {
      first = at;
      found_ = stop;
    }
  return std::exchange(held_, {}).substr(0, first);
}

}  // namespace lamina::text
