// The families of the op table. Each adds its rows; op_def.cc lists them.
#ifndef TP_IR_OPS_FAMILIES_H_
#define TP_IR_OPS_FAMILIES_H_

#include "ir/op_def.h"

namespace tp {

void AddPointwiseRows(OpRows& rows);
void AddCastRows(OpRows& rows);
void AddLinearRows(OpRows& rows);
void AddEinsumRows(OpRows& rows);
void AddAttentionRows(OpRows& rows);
void AddViewRows(OpRows& rows);
void AddExpandRows(OpRows& rows);
void AddSliceRows(OpRows& rows);
void AddSplitRows(OpRows& rows);
void AddJoinRows(OpRows& rows);
void AddIndexingRows(OpRows& rows);
void AddReductionRows(OpRows& rows);
void AddNormRows(OpRows& rows);
void AddEmbeddingRows(OpRows& rows);
void AddLossRows(OpRows& rows);
void AddConvRows(OpRows& rows);
void AddPoolRows(OpRows& rows);
void AddRearrangeRows(OpRows& rows);
void AddDistanceRows(OpRows& rows);
void AddCreationRows(OpRows& rows);
void AddSortRows(OpRows& rows);
void AddMiscRows(OpRows& rows);
void AddDropoutRows(OpRows& rows);
void AddTpRows(OpRows& rows);

}  // namespace tp

#endif  // TP_IR_OPS_FAMILIES_H_
