// Samples of reductions, normalizations, losses, convolutions and order.
#include "tests/soundness/samples.h"

namespace tp::soundness {

const char kReductionSamples[] = R"(
aten.sum(f64[N,3])
aten.sum.dim_IntList(f64[N,8,3]) {dim = [1], keepdim = true}
aten.sum.dim_IntList(i64[N,7,3]) {dim = [0, -1]}
aten.sum.dim_IntList(f64[4,N]) {dim = [1]}
aten.nansum(f64[N,3]) {dim = [1]}
aten.mean(f64[N,3])
aten.mean.dim(f64[N,7,3]) {dim = [-1], keepdim = true}
aten.amax(f64[N,7,3]) {dim = [1]}
aten.amax(f64[4,N]) {dim = [1]}
aten.amin(f64[N,7]) {dim = [-1], keepdim = true}
aten.amax(i64[N,7]~-9..-3) {dim = [1]}
aten.amin(i64[N,3]~3..9) {dim = [1]}
aten.amax(bool[N,3]) {dim = [1]}
aten.max(f64[N,3])
aten.min(f64[N,3])
aten.max(i64[N,3]~-9..-3)
aten.min(i64[N,3]~3..9)
aten.max.dim(f64[N,7]) {dim = 1}
aten.min.dim(f64[N,7,3]) {dim = 1, keepdim = true}
aten.median.dim(f64[N,7]) {dim = 1}
aten.mode(i64[N,7]) {dim = 1}
aten.argmax(f64[N,7]) {dim = 1}
aten.argmin(f64[N,7])
aten.all.dim(bool[N,7]) {dim = 1}
aten.any.dim(bool[N,7]) {dim = 0}
aten.all(bool[N,3])
aten.any(i64[N,3])
aten.count_nonzero(i64[N,3])
aten.count_nonzero.dim_IntList(i64[N,3]) {dim = [1]}
aten.prod(f64[N,3])
aten.prod.dim_int(f64[N,7]) {dim = 1}
aten.logsumexp(f64[N,7]) {dim = [1]}
aten.var.dim(f64[N,7]) {dim = [1]}
aten.var.correction(f64[N,7]) {dim = [1], correction = 0, keepdim = true}
aten.std.dim(f64[N,7]) {dim = [0], unbiased = false}
aten.std(f64[N,7])
aten.var_mean.correction(f64[N,7]) {dim = [1], correction = 1}
aten.std_mean.dim(f64[N,7]) {dim = [1]}
aten.linalg_vector_norm(f64[N,7]) {dim = [1]}
aten.linalg_vector_norm(f64[N,7])
aten.norm.ScalarOpt_dim(f64[N,7]) {p = 2, dim = [1], keepdim = true}
aten.norm.Scalar(f64[N,7])
aten.cumsum(f64[N,7]) {dim = 1}
aten.cumsum(i64[3,N]) {dim = 1}
aten.cumprod(f64[N,7]) {dim = 1}
aten.logcumsumexp(f64[N,7]) {dim = 1}
aten.cummax(f64[N,7]) {dim = 1}
aten.cummin(f64[N,7]) {dim = 1}
aten.softmax.int(f64[N,7,3]) {dim = -1}
aten.softmax.int(f64[N,7,3]) {dim = 0}
aten._softmax(f64[N,7]) {dim = 1, half_to_float = false}
aten.log_softmax.int(f64[N,7]) {dim = 1}
aten._log_softmax(f64[N,7]) {dim = 0, half_to_float = false}
aten.nanmedian.dim(f64[N,7]) {dim = 1}
aten.nanmean(f64[N,7]) {dim = [1]}
aten.linalg_norm(f64[N,7]) {dim = [1], keepdim = true}
aten.linalg_norm(f64[N,7])
aten.histc(f64[N,7]) {bins = 5, min = -2, max = 2}
aten.sort(f64[N,7]) {dim = 1, descending = true}
aten.topk(f64[N,7]) {k = 3}
aten.topk(f64[N,7]) {k = 2, dim = 0}
aten.argsort(f64[N,7]) {dim = 1}
)";

const char kNormSamples[] = R"(
aten.layer_norm(f64[N,7,4], f64[4], f64[4]) {normalized_shape = [4]}
aten.layer_norm(f64[N,7,4]) {normalized_shape = [7, 4]}
aten.native_layer_norm(f64[N,7,4], f64[4], f64[4]) {normalized_shape = [4], eps = 1e-05}
aten.rms_norm(f64[N,7,4], f64[4]) {normalized_shape = [4]}
aten.group_norm(f64[N,6,7], f64[6], f64[6]) {num_groups = 2}
aten.group_norm(f64[N,12,3], f64[12], none) {num_groups = 4}
aten.group_norm(f64[2,6,N]) {num_groups = 3}
aten.instance_norm(f64[N,6,7], f64[6], f64[6], none, none) {use_input_stats = true, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
aten.instance_norm(f64[N,4,7], none, none, f64[4], f64[4]~0.5..2) {use_input_stats = false, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
aten.batch_norm(f64[N,6,7], f64[6], f64[6], f64[6], f64[6]~0.5..2) {training = false, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
aten.batch_norm(f64[N,3], none, none, f64[3], f64[3]~0.5..2) {training = false, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
aten.batch_norm(f64[N,3], none, none, f64[3], f64[3]~0.5..2) {training = true, momentum = 0.1, eps = 0.5, cudnn_enabled = false} ! refused
aten.batch_norm(f64[5,N,7], f64[N], f64[N], none, none) {training = true, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
aten.batch_norm(f64[5,N], none, none, none, none) {training = true, momentum = 0.1, eps = 0.5, cudnn_enabled = false}
)";

const char kLossSamples[] = R"(
aten.cross_entropy_loss(f64[N,9], i64[N]~0..8)
aten.cross_entropy_loss(f64[N,9,3], i64[N,3]~0..8) {reduction = 0}
aten.cross_entropy_loss(f64[N,9], i64[N]~0..8, f64[9]~0.5..1) {reduction = 2}
aten.cross_entropy_loss(f64[N,9,3], f64[N,9,3]~0..1) {reduction = 0}
aten.cross_entropy_loss(f64[N,9], f64[N,9]~0..1) {reduction = 2, label_smoothing = 0.1}
aten.cross_entropy_loss(f64[9], i64[]~0..8) {reduction = 2}
aten.nll_loss(f64[N,9], i64[N]~0..8) {reduction = 2}
aten.nll_loss_nd(f64[N,9,3], i64[N,3]~0..8) {reduction = 0}
aten.nll_loss_nd(f64[N,9], i64[N]~0..8, f64[9]~0.5..1)
aten.mse_loss(f64[N,3], f64[N,3])
aten.mse_loss(f64[N,3], f64[N,3]) {reduction = 2}
aten.mse_loss(f64[N,3], f64[3]) {reduction = 0}
aten.l1_loss(f64[N,3], f64[N,3]) {reduction = 2}
aten.smooth_l1_loss(f64[N,3], f64[N,3]) {reduction = 2, beta = 0.5}
aten.huber_loss(f64[N,3], f64[N,3]) {reduction = 0}
aten.binary_cross_entropy(f64[N,3]~0.1..0.9, f64[N,3]~0..1) {reduction = 2}
aten.binary_cross_entropy(f64[N,3]~0.1..0.9, f64[N,3]~0..1, f64[3]~0.5..1) {reduction = 0}
aten.binary_cross_entropy_with_logits(f64[N,3], f64[N,3]~0..1) {reduction = 2}
aten.binary_cross_entropy_with_logits(f64[N,3], f64[N,3]~0..1, f64[3]~0.5..1, f64[N,1]~0.5..1) {reduction = 2}
aten.kl_div(f64[N,3], f64[N,3]~0.1..1) {reduction = 2}
aten.poisson_nll_loss(f64[N,3], f64[N,3]~0..4) {log_input = true, full = false, eps = 1e-08, reduction = 2}
aten.soft_margin_loss(f64[N,3], f64[N,3]) {reduction = 2}
aten.hinge_embedding_loss(f64[N,3], f64[N,3]) {reduction = 0}
aten.margin_ranking_loss(f64[N,3], f64[N,3], f64[N,1]) {margin = 0.5, reduction = 2}
)";

const char kConvolutionSamples[] = R"(
aten.conv1d(f64[N,6,9], f64[4,6,3]) {padding = [1]}
aten.conv1d(f64[N,8,9], f64[8,1,3], f64[8]) {groups = 8}
aten.conv1d(f64[6,9], f64[4,6,3])
aten.conv2d(f64[N,3,9,9], f64[4,3,3,3], f64[4]) {stride = [2, 2]}
aten.conv2d(f64[N,6,9,9], f64[8,3,3,3]) {groups = 2, dilation = [2, 2]}
aten.conv2d(f64[N,12,5,5], f64[8,3,3,3]) {groups = 4}
aten.conv3d(f64[N,2,4,4,4], f64[3,2,2,2,2])
aten.convolution(f64[N,6,9], f64[6,4,3], none) {stride = [2], padding = [1], dilation = [1], transposed = true, output_padding = [1], groups = 2}
aten._convolution(f64[N,3,8,8], f64[6,3,4,4], f64[6]) {stride = [4, 4], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, benchmark = false, deterministic = false, cudnn_enabled = true, allow_tf32 = true}
aten._convolution_mode(f64[N,6,9], f64[4,6,3], none) {stride = [1], padding = "same", dilation = [1], groups = 1}
aten._convolution_mode(f64[N,6,7,7], f64[8,3,3,3], f64[8]) {stride = [1, 1], padding = "valid", dilation = [2, 2], groups = 2}
aten.conv_transpose1d(f64[N,6,5], f64[6,4,3])
aten.conv_transpose2d.input(f64[N,6,4,4], f64[6,2,3,3], f64[6]) {stride = [2, 2], groups = 3}
aten.conv_transpose3d.input(f64[N,2,3,3,3], f64[2,3,2,2,2])
aten.max_pool1d(f64[N,4,9]) {kernel_size = [3]}
aten.max_pool1d_with_indices(f64[N,4,9]) {kernel_size = [3], stride = [2]}
aten.max_pool2d(f64[N,4,7,9]) {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1], ceil_mode = true}
aten.max_pool2d_with_indices(f64[N,4,7,9]) {kernel_size = [2, 2]}
aten.max_pool3d(f64[N,2,4,4,4]) {kernel_size = [2, 2, 2]}
aten.max_pool3d_with_indices(f64[N,2,4,4,4]) {kernel_size = [2, 2, 2]}
aten.avg_pool1d(f64[N,4,9]) {kernel_size = [3]}
aten.avg_pool2d(f64[N,4,7,9]) {kernel_size = [2, 2]}
aten.avg_pool3d(f64[N,2,4,4,4]) {kernel_size = [2, 2, 2]}
aten.adaptive_max_pool1d(f64[N,4,9]) {output_size = [3]}
aten.adaptive_max_pool2d(f64[N,4,7,9]) {output_size = [2, 3]}
aten.adaptive_max_pool3d(f64[N,2,4,4,4]) {output_size = [2, 2, 2]}
aten.adaptive_avg_pool1d(f64[N,4,9]) {output_size = [3]}
aten.adaptive_avg_pool2d(f64[N,4,7,9]) {output_size = [2, 3]}
aten.adaptive_avg_pool3d(f64[N,2,4,4,4]) {output_size = [2, 2, 2]}
aten.upsample_nearest1d(f64[N,4,5]) {output_size = [9]}
aten.upsample_nearest2d(f64[N,4,3,3]) {output_size = [5, 6]}
aten.upsample_nearest3d(f64[N,2,2,2,2]) {output_size = [3, 3, 3]}
aten.upsample_bilinear2d(f64[N,4,3,3]) {output_size = [5, 6], align_corners = false}
aten.upsample_bicubic2d(f64[N,4,3,3]) {output_size = [5, 6], align_corners = true}
aten._upsample_nearest_exact1d(f64[N,4,5]) {output_size = [9]}
aten._upsample_nearest_exact2d(f64[N,4,3,3]) {output_size = [5, 6]}
aten._upsample_nearest_exact3d(f64[N,2,2,2,2]) {output_size = [3, 3, 3]}
aten.upsample_linear1d(f64[N,4,5]) {output_size = [9], align_corners = false}
aten.upsample_trilinear3d(f64[N,2,2,2,2]) {output_size = [3, 3, 3], align_corners = true}
aten._upsample_bilinear2d_aa(f64[N,4,5,6]) {output_size = [3, 3], align_corners = false}
aten._upsample_bicubic2d_aa(f64[N,4,5,6]) {output_size = [3, 3], align_corners = false}
aten.grid_sampler(f64[N,4,5,6], f64[N,3,2,2]~-1..1) {interpolation_mode = 0, padding_mode = 0, align_corners = false}
aten.grid_sampler(f64[N,2,3,3,3], f64[N,2,3,2,3]~-1..1) {interpolation_mode = 0, padding_mode = 1, align_corners = true}
)";

const char kPixelSamples[] = R"(
aten.pixel_shuffle(f64[N,12,3,2]) {upscale_factor = 2}
aten.pixel_shuffle(f64[2,N,8,3,1]) {upscale_factor = 2}
aten.pixel_unshuffle(f64[N,3,8,6]) {downscale_factor = 2}
aten.im2col(f64[N,3,5,6]) {kernel_size = [2, 3], dilation = [1, 2], padding = [0, 1], stride = [1, 2]}
aten.im2col(f64[4,N,5]) {kernel_size = [1, 2], dilation = [1, 1], padding = [0, 0], stride = [1, 1]}
aten.col2im(f64[N,12,12]) {output_size = [4, 5], kernel_size = [2, 2], dilation = [1, 1], padding = [0, 0], stride = [1, 1]}
aten.col2im(f64[12,8]) {output_size = [4, 5], kernel_size = [2, 2], dilation = [1, 1], padding = [0, 0], stride = [2, 1]}
aten.unfold(f64[N,9,3]) {dimension = 1, size = 4, step = 2}
aten.unfold(f64[2,N]) {dimension = -1, size = 1, step = 1}
aten.channel_shuffle(f64[N,12,3,2]) {groups = 3}
aten.diagonal(f64[N,5,7]) {offset = 1, dim1 = 1, dim2 = -1}
aten.diagonal(f64[5,N,4]) {offset = -2, dim1 = 0, dim2 = 2}
)";

const char kDistanceSamples[] = R"(
aten.cosine_similarity(f64[N,7,4], f64[N,1,4]) {dim = -1}
aten.cosine_similarity(f64[N,7,4], f64[7,4]) {eps = 0.5}
aten.pairwise_distance(f64[N,7], f64[N,7])
aten.pairwise_distance(f64[N,4,7], f64[7]) {p = 1.0, keepdim = true}
aten.linalg_cross(f64[N,3,4], f64[1,3,4]) {dim = 1}
aten.linalg_cross(f64[N,3], f64[N,3])
aten.cdist(f64[N,7,4], f64[5,4])
aten.cdist(f64[2,N,4], f64[2,5,4]) {p = 1.0}
aten.dist(f64[N,7], f64[N,7])
aten.dist(f64[N,7], f64[7]) {p = inf}
aten.dist(f64[7], f64[N,1]) {p = 0}
aten.dist(f64[N,7], f64[N,1]) {p = -inf}
aten.renorm(f64[N,7,3]) {p = 2, dim = 1, maxnorm = 1.5}
aten.renorm(f64[N,7]) {p = 1, dim = 0, maxnorm = 1}
aten._weight_norm(f64[N,7,3], f64[N,1,1])
aten._weight_norm(f64[5,3,N], f64[1,1,N]) {dim = 2}
aten._weight_norm(f64[N,7], f64[]) {dim = -1}
)";

const char kRecurrentSamples[] = R"(
aten.lstm.input(f64[4,N,3], [f64[1,N,5], f64[1,N,5]], [f64[20,3], f64[20,5], f64[20], f64[20]]) {has_biases = true, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false}
aten.gru.input(f64[4,N,3], f64[1,N,5], [f64[15,3], f64[15,5], f64[15], f64[15]]) {has_biases = true, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false}
aten.rnn_tanh.input(f64[4,N,3], f64[1,N,5], [f64[5,3], f64[5,5], f64[5], f64[5]]) {has_biases = true, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false}
aten.rnn_relu.input(f64[4,N,3], f64[2,N,5], [f64[5,3], f64[5,5], f64[5,3], f64[5,5]]) {has_biases = false, num_layers = 1, dropout = 0.0, train = false, bidirectional = true, batch_first = false}
aten.lstm_cell(f64[N,3], [f64[N,5], f64[N,5]], f64[20,3], f64[20,5], f64[20], f64[20])
aten.gru_cell(f64[N,3], f64[N,5], f64[15,3], f64[15,5], f64[15], f64[15])
aten.rnn_tanh_cell(f64[N,3], f64[N,5], f64[5,3], f64[5,5])
aten.rnn_relu_cell(f64[N,3], f64[N,5], f64[5,3], f64[5,5])
aten.nonzero(f64[N,3]) ! refused
aten.masked_select(f64[N,3], bool[N,3]) ! refused
aten.unique_dim(f64[N,3]) {dim = 0} ! refused
aten._unique2(f64[N,3]) ! refused
aten.where(bool[N,3]) ! refused
aten.argwhere(bool[N,3]) ! refused
aten.bincount(i64[N]) ! refused
aten.repeat_interleave.Tensor(i64[N]) ! refused
)";

}  // namespace tp::soundness
