#include "cli/report/report_assets.h"

#include "report_asset_texts.h"  // made by scripts/cmake/report_assets.cmake

namespace lamina::cli {

const ReportAssets kReportAssets = {
    .library = kLibraryText,
    .library_style = kLibraryStyleText,
    .library_licence = kLibraryLicenceText,
    .script = kScriptText,
    .style = kStyleText,
    .library_sha256 = LAMINA_LIBRARY_SHA256,
    .script_sha256 = LAMINA_SCRIPT_SHA256,
};

}  // namespace lamina::cli
