// The fixed parts of the page of `lamina report`, compiled into the program.
#pragma once

#include <string_view>

namespace lamina::cli {

struct ReportAssets {
  std::string_view library;        // dygraphs, which draws the curves
  std::string_view library_style;  // its CSS
  std::string_view library_licence;
  std::string_view script, style;  // report_assets/: curves.js with page.js, page.css
  // SHA-256 in base64 of the two scripts, for the Content-Security-Policy of the page.
  std::string_view library_sha256, script_sha256;
};

extern const ReportAssets kReportAssets;

}  // namespace lamina::cli
