// The transpose of a pair list, but for the sort of its entries by column.

// The row and the column of each entry; one that belongs to no row has a column behind the last. Ranges of rows rise and
// never overlap, so a block's entries are those of a few rows, between the one of the first and the one of the last.
FUNCTION transpose_keys(const i64* starts, const i64* ends, i64 rows, const i32* columns, i64 column_count, Length entries,
                        u32* keys, u32* numbers, i32* row_of, Status status) {
  __shared__ i64 between[2];
  const i64 all = length(entries), first = i64(blockIdx.x) * EACH_TILE;
  if (first >= all) return;
  if (threadIdx.x < 2) {
    const i64 last = (first + EACH_TILE < all ? first + EACH_TILE : all) - 1;
    // The number of rows that begin at the entry or before.
    between[threadIdx.x] = rank_of<true>(starts, 0, rows, threadIdx.x == 0 ? first : last);
  }
  __syncthreads();
  each(all, [&](i64 i) {
    const i64 row = rank_of<true>(starts, between[0], between[1], i) - 1;
    i64 column = column_count;
    if (row >= 0 && i < ends[row]) {
      column = columns[i];
      if (column < 0 || column >= column_count) {
        raise(status, BAD_INDEX);
        column = column_count;
      }
    }
    keys[i] = u32(column);
    numbers[i] = u32(i);
    row_of[i] = i32(row);
  });
}

// The rows and numbers of the entries that belong to a column, in the order of columns.
FUNCTION transpose_rows(const i64* pairs, i64 capacity, const u32* numbers, const i32* row_of, i32* rows, i32* entries) {
  each(*pairs < capacity ? *pairs : capacity, [&](i64 i) {
    const u32 entry = numbers[i];
    rows[i] = row_of[entry];
    entries[i] = i32(entry);
  });
}
