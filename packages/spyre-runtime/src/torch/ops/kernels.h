// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch/ops/call.h"

/// Native kernels that are written one by one: pointwise operators and reductions have tables of
/// their own. catalog.cc registers them all.
namespace spyre::aten {

struct Kernel {
  const char* name;  ///< functional (or only) overload, without "aten::"
  bool (*run)(Call& call);
  const char* types;  ///< classes of dtypes it computes in, for the documentation
};

const std::vector<Kernel>& normalize_kernels();       ///< softmax, layer norm, their derivatives
const std::vector<Kernel>& matmul_kernels();          ///< matrix and vector products
const std::vector<Kernel>& index_kernels();           ///< gather, scatter, embedding
const std::vector<Kernel>& advanced_index_kernels();  ///< x[i, :, j]
const std::vector<Kernel>& fill_kernels();            ///< fill, arange, triangles
const std::vector<Kernel>& join_kernels();            ///< cat, flip
const std::vector<Kernel>& attention_kernels();       ///< scaled dot product attention
const std::vector<Kernel>& convolution_kernels();     ///< convolutions and their derivatives
const std::vector<Kernel>& pool_kernels();            ///< maxima and means over windows
const std::vector<Kernel>& upsample_kernels();        ///< images in other sizes
const std::vector<Kernel>& group_norm_kernels();      ///< group normalisation
const std::vector<Kernel>& batch_norm_kernels();      ///< batch and weight normalisation
const std::vector<Kernel>& nll_loss_kernels();        ///< losses of class indices
const std::vector<Kernel>& scan_kernels();            ///< cumulative sums and products
const std::vector<Kernel>& sort_kernels();            ///< sort, top k
const std::vector<Kernel>& compose_kernels();         ///< made of other native operators

/// A native kernel as the catalogue lists it.
struct CatalogEntry {
  std::string name;                   ///< "aten::add.Tensor"
  std::string types;                  ///< letters f, i, b
  std::string kind;                   ///< "pointwise", "reduction" or the name of a list above
  std::vector<std::string> variants;  ///< all overloads that it serves
};
const std::vector<CatalogEntry>& catalog();

}  // namespace spyre::aten
