#include "cli/shell/output_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/error.h"
#include "train/loop/file_owner.h"

namespace lamina::cli {
namespace {

[[noreturn]] void refuse_output(const std::string& path, std::string what) {
  throw UserError(ExitCode::usage,
                  {path, std::move(what), {"name a file outside of that directory"}});
}

io::Destination check_output(const std::string& path, bool own_kind) {
  io::Destination out = io::destination_of(path);
  if (out.in_place) return out;
  const std::optional<train::FileOwner> owner = train::file_owner(out.path);
  if (!owner) return out;
  std::error_code error;
  const bool is_there = std::filesystem::exists(out.path, error);
  if (is_there && (owner->is_closed || !own_kind))
    refuse_output(path, fmt::format("belongs to {}, '{}', and is not overwritten", owner->kind,
                                    owner->directory));
  if (!is_there && owner->is_closed)
    refuse_output(path, fmt::format("would be inside {}, '{}', which only training writes to",
                                    owner->kind, owner->directory));
  return out;
}

}  // namespace

io::Destination check_output_file(const std::string& path) { return check_output(path, false); }

io::Destination check_own_output_file(const std::string& path) { return check_output(path, true); }

}  // namespace lamina::cli
