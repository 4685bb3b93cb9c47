// The C++20 SDK of plugins, header-only, over the C contract of abi.h. A family's file includes
// this one. docs/add_a_model.md shows how.
#pragma once

#include "lamina/sdk/compressed_attention.h"
#include "lamina/sdk/hyper_connection.h"
#include "lamina/sdk/layer_ops.h"
#include "lamina/sdk/layers.h"
#include "lamina/sdk/model.h"
#include "lamina/sdk/moe.h"
#include "lamina/sdk/moe_keys.h"
#include "lamina/sdk/mtp.h"
#include "lamina/sdk/ops.h"
#include "lamina/sdk/plan.h"
#include "lamina/sdk/plugin.h"
#include "lamina/sdk/position_bias.h"
#include "lamina/sdk/rope_keys.h"
#include "lamina/sdk/router.h"
#include "lamina/sdk/schema.h"
#include "lamina/sdk/standard_keys.h"
#include "lamina/sdk/standard_model.h"
#include "lamina/sdk/standard_weights.h"
#include "lamina/sdk/step.h"
#include "lamina/sdk/transformer.h"
