// Samples of products, views, parts, joins and lookups.
#include "tests/soundness/samples.h"

namespace tp::soundness {

const char kProductSamples[] = R"(
aten.mm(f64[N,10], f64[10,3])
aten.mm(f64[4,N], f64[N,3])
aten.bmm(f64[N,4,10], f64[N,10,3])
aten.mv(f64[N,10], f64[10])
aten.dot(f64[N], f64[N])
aten.matmul(f64[N,8,3,10], f64[N,8,10,5])
aten.matmul(f64[N,1,3,10], f64[4,10,5])
aten.matmul(f64[N,7,10], f64[10])
aten.matmul(f64[10], f64[N,10,3])
aten.matmul(f64[N,7,10], f64[10,3])
aten.matmul(f64[N], f64[N])
aten.linear(f64[N,7,10], f64[3,10])
aten.linear(f64[N,12], f64[8,12], f64[8])
aten.linear(f64[N,10], f64[10])
aten.addmm(f64[3], f64[N,10], f64[10,3])
aten.addmm(f64[N,1], f64[N,10], f64[10,3]) {beta = 2, alpha = 3}
aten.baddbmm(f64[N,1,3], f64[N,4,10], f64[N,10,3])
aten.addmv(f64[N], f64[N,10], f64[10])
aten.outer(f64[N], f64[3])
aten.ger(f64[N], f64[3])
aten.einsum([f64[N,7,10], f64[3,10]]) {equation = "bsk,nk->bsn"}
aten.einsum([f64[N,8,7,10], f64[N,8,3,10]]) {equation = "bhqd,bhkd->bhqk"}
aten.einsum([f64[N,7]]) {equation = "ij->ji"}
aten.einsum([f64[N,7,10], f64[3,10]]) {equation = "...d,kd->...k"}
aten.einsum([f64[N,4,5], f64[3,N,5,4]]) {equation = "...ij,...ji"}
aten.einsum([f64[N,7]]) {equation = "ij->j"}
aten.einsum([f64[N,3], f64[3,4], f64[4,5]]) {equation = "ij,jk,kl->il"}
aten.einsum([f64[N,3,1], f64[1,3,4]]) {equation = "ijk,ijk->ik"}
aten.tensordot(f64[N,7,4], f64[4,N,3]) {dims_self = [2, 0], dims_other = [0, 1]}
aten.tensordot(f64[N,7,1], f64[4,3]) {dims_self = [2], dims_other = [0]}
aten.tensordot(f64[N,3], f64[4]) {dims_self = [], dims_other = []}
aten._grouped_mm(bf16[8,16], bf16[3,16,16], i32[3]~1..8) ! ordered, no-grad sums of bf16 gradients round
aten._grouped_mm(f32[8,12], f32[3,12,8], i32[3]~1..8) ! ordered
aten.scaled_dot_product_attention(f64[N,8,7,12], f64[N,8,9,12], f64[N,8,9,10], f64[N,1,7,9])
aten.scaled_dot_product_attention(f64[N,8,7,12], f64[N,8,7,12], f64[N,8,7,10]) {is_causal = true}
aten.scaled_dot_product_attention(f64[N,8,7,12], f64[N,1,7,12], f64[N,1,7,10])
aten.scaled_dot_product_attention(f64[N,6,7,12], f64[N,2,9,12], f64[N,2,9,10], f64[7,9]) {enable_gqa = true}
aten.scaled_dot_product_attention(f64[5,6,N,12], f64[5,3,N,12], f64[5,3,N,10], f64[5,6,N,N]) {enable_gqa = true, scale = 0.5}
aten.scaled_dot_product_attention(f64[N,3,7,4], f64[N,3,9,4], f64[N,3,9,5], bool[3,7,9])
)";

const char kFusedSamples[] = R"(
aten._native_multi_head_attention(f64[N,5,6], f64[N,5,6], f64[N,5,6], f64[18,6], f64[18], f64[6,6], f64[6], none) {embed_dim = 6, num_head = 3} ! no-grad LibTorch has no derivative
aten._native_multi_head_attention(f64[N,5,6], f64[N,5,6], f64[N,5,6], f64[18,6], f64[18], f64[6,6], f64[6], bool[N,5]) {embed_dim = 6, num_head = 2, average_attn_weights = false, mask_type = 1} ! no-grad LibTorch has no derivative
aten._transformer_encoder_layer_fwd(f64[N,5,6], f64[18,6], f64[18], f64[6,6], f64[6], f64[6], f64[6], f64[6], f64[6], f64[8,6], f64[8], f64[6,8], f64[6], none) {embed_dim = 6, num_heads = 3, use_gelu = true, norm_first = false, eps = 1e-05} ! no-grad LibTorch has no derivative
)";

const char kViewSamples[] = R"(
aten.view(f64[N,7,96]) {size = [N, 7, 8, 12]} ! dense
aten.view(f64[N,3,8,12]) {size = [N, 3, 96]} ! dense
aten.view(f64[N,3,4]) {size = [12*N]} ! dense
aten._unsafe_view(f64[3*N,5]) {size = [3, N, 5]} ! dense
aten.reshape(f64[N,7,24]) {shape = [N, 7, 6, 4]}
aten.reshape(f64[N,3,96]) {shape = [N, 3, 3, 8, 4]}
aten.reshape(f64[N,8,3,4]) {shape = [8*N, 3, 4]}
aten.reshape(f64[8*N,3,4]) {shape = [N, 8, 3, 4]}
aten.reshape(f64[N,2,3,7]) {shape = [N, 6, 7]}
aten.reshape(f64[N,6,4]) {shape = [N, 4, 6]}
aten.reshape(f64[N,3]) {shape = [1, N, 1, 3]}
aten.reshape(f64[4,12]) {shape = [2, 8, 3]}
aten.view_as(f64[N,12], f64[N,3,4]) ! dense
aten.reshape_as(f64[N,3,4], f64[N,12])
aten.flatten.using_ints(f64[N,7,6,3]) {start_dim = 1, end_dim = 2}
aten.flatten.using_ints(f64[N,3])
aten.unflatten.int(f64[N,24]) {dim = 1, sizes = [6, 4]}
aten.unflatten.int(f64[4*N,3]) {dim = 0, sizes = [4, N]}
aten.squeeze.dim(f64[N,1,7]) {dim = 1}
aten.squeeze.dim(f64[3,2,7]) {dim = 1}
aten.squeeze(f64[1,2,1,3])
aten.squeeze.dims(f64[2,1,1,3]) {dim = [1, 3]}
aten.unsqueeze(f64[N,7]) {dim = -1}
aten.unsqueeze(f64[N,3]) {dim = 0}
aten.transpose.int(f64[N,7,3]) {dim0 = 1, dim1 = -1}
aten.permute(f64[N,7,3]) {dims = [2, 0, 1]}
aten.t(f64[N,3])
aten.numpy_T(f64[N,7,3])
aten.swapaxes(f64[N,7,3]) {axis0 = 0, axis1 = 2}
aten.swapdims(f64[N,7,3]) {dim0 = 0, dim1 = 1}
aten.movedim.int(f64[N,7,3]) {source = 2, destination = 0}
aten.moveaxis.intlist(f64[N,7,3]) {source = [0, 1], destination = [1, 2]}
aten.mT(f64[N,7,3])
aten.adjoint(f64[N,7,3])
aten.expand(f64[N,1,3]) {size = [N, 4, 3]}
aten.expand(f64[3]) {size = [N, -1]}
aten.expand_as(f64[N,1], f64[N,3])
aten.broadcast_to(f64[N,1]) {size = [N, 3]}
aten.broadcast_tensors([f64[N,1], f64[4]])
aten.broadcast_tensors([f64[N,4], f64[N,4]])
aten.repeat(f64[N,4]) {repeats = [3, 1, 2]}
aten.tile(f64[N,4]) {dims = [2]}
aten.repeat_interleave.self_int(f64[N,4]) {repeats = 3, dim = 1}
aten.repeat_interleave.self_int(f64[N,4]) {repeats = 2}
)";

const char kPartSamples[] = R"(
aten.slice.Tensor(f64[N,12]) {dim = 1, start = 2, end = -3}
aten.slice.Tensor(f64[N,12]) {dim = 1, start = 0, end = 9223372036854775807}
aten.slice.Tensor(f64[N,12]) {dim = 1, start = 1, end = 9, step = 3}
aten.slice.Tensor(f64[N,12]) {dim = 0, start = 0, end = N}
aten.narrow(f64[N,12]) {dim = 1, start = 2, length = 3}
aten.select.int(f64[N,7,3]) {dim = 1, index = -1}
aten.select.int(f64[N,7,3]) {dim = 0, index = 0}
aten.flip(f64[N,7,3]) {dims = [1]}
aten.roll(f64[N,7]) {shifts = [2], dims = [1]}
aten.roll(f64[N,7]) {shifts = [2]}
aten.diff(f64[N,7]) {dim = 1}
aten.diff(f64[N,7], f64[N,1], none) {n = 2, dim = 1}
aten.tril(f64[N,7,7])
aten.triu(f64[N,7,6]) {diagonal = 1}
aten.split.Tensor(f64[N,18]) {split_size = 6, dim = 1}
aten.split.Tensor(f64[N,10]) {split_size = 4, dim = 1}
aten.split.sizes(f64[N,18]) {split_size = [6, 6, 6], dim = 1}
aten.split_with_sizes(f64[N,24]) {split_sizes = [8, 8, 8], dim = 1}
aten.split_with_sizes(f64[N,18]) {split_sizes = [6, 12], dim = 1}
aten.split_with_sizes(f64[2*N,3]) {split_sizes = [N, N], dim = 0}
aten.chunk(f64[N,14]) {chunks = 2, dim = -1}
aten.chunk(f64[N,7]) {chunks = 3, dim = 1}
aten.tensor_split.sections(f64[N,9]) {sections = 3, dim = 1}
aten.tensor_split.sections(f64[N,10]) {sections = 3, dim = 1}
aten.unbind.int(f64[2,N,7])
aten.unbind.int(f64[N,3]) {dim = 1}
aten.cat([f64[N,6], f64[N,6]]) {dim = 1}
aten.cat([f64[N,6], f64[N,7]]) {dim = -1}
aten.cat([f64[N,3], f64[N,3], f64[N,3]])
aten.concat([f64[N,6], f64[N,6]]) {dim = 1}
aten.concatenate([f64[3,N], f64[3,N]]) {dim = 1}
aten.stack([f64[N,7], f64[N,7]]) {dim = 1}
aten.pad(f64[N,7]) {pad = [1, 2]}
aten.pad(f64[N,4,7]) {pad = [1, 2], mode = "reflect"}
aten.constant_pad_nd(f64[N,7]) {pad = [1, -2], value = 3.0}
aten.constant_pad_nd(f64[N,7]) {pad = [0, 0, 1, 1]}
)";

const char kLookupSamples[] = R"(
aten.embedding(f64[17,6], i64[N,7]~0..16)
aten.embedding(f64[3,6], i64[N]~0..2)
aten.embedding(f64[12,5], i32[N,3]~0..11)
aten.embedding_bag(f64[9,6], i64[N]~0..8, i64[1]~0..0) {mode = 0}
aten.embedding_bag(f64[9,6], i64[N]~0..8, i64[3]~0..0, none) {mode = 1, include_last_offset = true}
aten.embedding_bag(f64[9,8], i64[7]~0..8, i64[2]~0..0) {mode = 2}
aten.embedding_bag(f32[9,6], i64[N]~0..8, i64[2]~0..0, f32[N]) {mode = 0}
aten.embedding_bag.padding_idx(f64[9,6], i64[7]~0..8, i32[2]~0..0, none) {scale_grad_by_freq = false, mode = 0, sparse = false, include_last_offset = false, padding_idx = 3}
aten.one_hot(i64[N,7]~0..3) {num_classes = 4}
aten.index.Tensor(f64[N,7,4], [none, i64[3]~0..6])
aten.index.Tensor(f64[5,N,4], [i64[3,1]~0..4, i64[4]~0..0])
aten.index.Tensor(f64[5,N,6], [i64[3]~0..4, none, i64[3]~0..5])
aten.index.Tensor(f64[7,5], [i64[N,3]~0..6])
aten.index_select(f64[N,7], i64[3]~0..6) {dim = 1}
aten.index_select(f64[7,3], i64[N]~0..6) {dim = 0}
aten.gather(f64[N,7], i64[N,3]~0..6) {dim = 1}
aten.gather(f64[8,7,6], i64[5,3,6]~0..6) {dim = 1}
aten.take(f64[4,7], i64[N,3]~0..27)
aten.isin.Tensor_Tensor(i64[N,7], i64[5])
aten.isin.Tensor_Scalar(i64[N,7]) {test_element = 2}
aten.take_along_dim(f64[N,7], i64[1,3]~0..6) {dim = 1}
aten.take_along_dim(f64[N,7], i64[N,3]~0..6) {dim = 1}
aten.scatter.src(f64[N,7], i64[N,3]~0..6, f64[N,3]) {dim = 1} ! no-grad which of several equal indices wins is not defined
aten.scatter.value(f64[N,7], i64[N,3]~0..6) {dim = 1, value = 2.5}
aten.scatter_add(f64[N,7], i64[N,3]~0..6, f64[N,3]) {dim = 1}
aten.scatter_add(f64[8,7,6], i64[5,3,6]~0..6, f64[5,3,6]) {dim = 1}
aten.scatter_reduce.two(f64[N,7], i64[N,3]~0..6, f64[N,3]) {dim = 1, reduce = "sum"}
aten.index_add(f64[N,7,3], i64[4]~0..6, f64[N,4,3]) {dim = 1}
aten.index_copy(f64[N,7,3], i64[1]~0..6, f64[N,1,3]) {dim = 1}
aten.index_fill.int_Scalar(f64[N,7], i64[3]~0..6) {dim = 1, value = 2.5}
aten.slice_scatter(f64[N,7,3], f64[N,4,3]) {dim = 1, start = 2, end = 6}
aten.select_scatter(f64[N,7,3], f64[N,3]) {dim = 1, index = 2}
aten.index_put(f64[N,7], [i64[3]~0..0], f64[7])
aten.index_put(f64[N,7], [none, i64[1]~0..6], f64[N,1])
aten.index_put(f64[N,7,6], [none, i64[3]~0..6], f64[N,3,6]) {accumulate = true}
aten.index_put(f64[5,N,6], [i64[4,1]~0..4, none, i64[3]~0..5], f64[4,3,N]) {accumulate = true}
aten.index_put(f64[5,N,6], [i64[2]~0..4, none, i64[2]~0..5], f64[1]) {accumulate = true}
aten.index_put(f64[5,7], [bool[5]], f64[7])
aten.index_put(f64[5,7,N], [bool[5,7]], f64[N])
aten.index_put(f64[N,5], [none, bool[5]], f64[]) {accumulate = true}
aten.bucketize.Tensor(i64[N,3]~-3..9, i64[4]~-2..8) ! ordered
aten.bucketize.Tensor(i64[N,3]~-3..9, i64[5]~-2..8) {out_int32 = true, right = true} ! ordered
)";

}  // namespace tp::soundness
