// Checks of arguments ahead of kernels, and the end of a call whose arguments failed them. Status words are those of
// status.rs; reasons are numbered as there.

struct Item {
  const void* data;
  long long count;
  // The check: see `Rule` in checks.rs.
  int rule;
  // Bytes of an element, 3 for bfloat16.
  int type;
  long long limit;
  unsigned param;
  // Of a batch: `data` is the system of each atom, here is where each system begins, and the number of atoms. Of offsets
  // in 32 bits: room for them in 64.
  int* ptr;
  long long atoms;
  // The blocks that look at it.
  unsigned first, blocks;
};
struct Items { Item of[16]; };

// The sum over a list's pairs in which a full list's pairs cancel: the rest is one-sided pairs.
struct Surplus {
  unsigned long long sum;
  unsigned long long param;
};
struct List {
  // Offsets, in 32 bits where they come so; null: in 64, `start` and `end` of each row.
  const int* narrow;
  const long long *start, *end;
  const int *column, *triples, *packed, *row_of, *column_of;
  long long rows, columns, capacity;
  Surplus* surplus;
  int directed, full;
};
struct Lists { List of[4]; };

__device__ inline void raise_in(unsigned* word, int reason, unsigned param) {
  atomicOr(word, 1u << reason);
  atomicMax(word + 1 + reason, param);
}

// 0: a finite number above zero, 1: zero, 2: a finite number below zero, 3: none.
__device__ inline int sort_of_number(const void* data, long long i, int type) {
  bool infinite, zero, negative;
  if (type == 8) {
    const unsigned long long x = ((const unsigned long long*)data)[i];
    infinite = (x >> 52 & 0x7ff) == 0x7ff;
    zero = x << 1 == 0;
    negative = x >> 63;
  } else if (type == 4) {
    const unsigned x = ((const unsigned*)data)[i];
    infinite = (x >> 23 & 0xff) == 0xff;
    zero = x << 1 == 0;
    negative = x >> 31;
  } else {
    const unsigned x = ((const unsigned short*)data)[i];
    infinite = type == 2 ? (x >> 10 & 0x1f) == 0x1f : (x >> 7 & 0xff) == 0xff;
    zero = (x & 0x7fff) == 0;
    negative = x >> 15;
  }
  return infinite ? 3 : zero ? 1 : negative ? 2 : 0;
}

// Whether three rows span no volume, by the rule of cell.rs; if vectors of open axes may be zero, none of them being so.
__device__ inline bool is_flat(const void* data, long long system, int type, bool may_be_open) {
  double m[9];
  for (int k = 0; k < 9; ++k)
    m[k] = type == 8 ? ((const double*)data)[9 * system + k] : double(((const float*)data)[9 * system + k]);
  for (int r = 0; r < 3; ++r) {
    double* v = m + 3 * r;
    if (may_be_open && v[0] == 0 && v[1] == 0 && v[2] == 0) return false;
    const double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; ++k) v[k] /= length;
  }
  const double det = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
                     m[2] * (m[3] * m[7] - m[4] * m[6]);
  return !(fabs(det) > 1e-12);
}

// An atom's system, and where a system begins.
__device__ inline void check_batch(const Item& item, long long i, unsigned* word) {
  const int* of = (const int*)item.data;
  const long long systems = item.limit;
  if (i == 0 && (item.ptr[0] != 0 || item.ptr[systems] != item.atoms)) raise_in(word, 9, item.param);
  if (i < systems && item.ptr[i] > item.ptr[i + 1]) raise_in(word, 9, item.param);
  if (i >= item.atoms) return;
  const long long b = of[i];
  if (b < 0 || b >= systems) raise_in(word, 0, item.param);
  else if (i < item.ptr[b] || i >= item.ptr[b + 1]) raise_in(word, 9, item.param);
}

// `check_batch` with offsets of systems that are written first: for any systems of the atoms they lie within the atoms.
__device__ inline void derive_batch(const Item& item, long long i, unsigned* word) {
  const int* of = (const int*)item.data;
  const long long systems = item.limit;
  if (i <= systems) {
    long long first = 0, last = item.atoms;
    while (first < last) {
      const long long middle = first + (last - first) / 2;
      if ((unsigned)of[middle] < (unsigned long long)i) first = middle + 1;
      else last = middle;
    }
    item.ptr[i] = int(first);
  }
  if (i >= item.atoms) return;
  if (of[i] < 0 || of[i] >= systems) raise_in(word, 0, item.param);
  else if (i > 0 && of[i - 1] > of[i]) raise_in(word, 9, item.param);
}

__device__ inline void check_element(const Item& item, long long i, unsigned* word) {
  if (item.rule == 4) {
    if (((const long long*)item.data)[i] > item.limit) raise_in(word, 2, item.param);
  } else if (item.rule == 5) {
    const long long of = ((const int*)item.data)[i];
    if (of < 0 || of >= item.limit) raise_in(word, 0, item.param);
  } else if (item.rule == 6) {
    check_batch(item, i, word);
  } else if (item.rule == 7) {
    derive_batch(item, i, word);
  } else if (item.rule == 8) {
    const long long end = ((const int*)item.data)[i];
    ((long long*)item.ptr)[i] = end;
    if (end > item.limit) raise_in(word, 2, item.param);
    // The mark of a list that is out of date, of which nothing else may be looked at.
    if (end < 0) raise_in(word, 10, item.param);
  } else if (item.rule == 9) {
    if (item.type == 8) ((long long*)item.data)[i] = item.limit;
    else if (item.type == 4) ((int*)item.data)[i] = int(item.limit);
    else ((short*)item.data)[i] = short(item.limit);
  } else {
    const int is = sort_of_number(item.data, i, item.type);
    if (is == 3) raise_in(word, 3, item.param);
    else if (item.rule == 1 && is != 0) raise_in(word, 6, item.param);
    else if (item.rule == 2 && is != 1) raise_in(word, 7, item.param);
    else if (item.rule == 11 && is == 2) raise_in(word, 20, item.param);
    else if (item.rule == 3 && i % 9 == 0 && is_flat(item.data, i / 9, item.type, item.limit)) raise_in(word, 8, item.param);
  }
}

// A mixed code of a pair (pairs/mod.rs): sums of them agree only where the pairs do.
__device__ inline unsigned long long mixed(unsigned long long code) {
  const unsigned long long x = code ^ 0xc2b2ae3d27d4eb4full, y = code << 32 | code >> 32;
  return x * y ^ __umul64hi(x, y);
}

// A row of a list, by a warp.
__device__ inline void check_row(const List& list, long long i, unsigned* word, unsigned param) {
  const unsigned long long FIRST = 0x9e3779b97f4a7c15ull, LAST = 0xa0761d6478bd642full, IMAGE = 0xd6e8feb86659fd93ull;
  // Other outputs of this launch must not be read, such as the 64-bit copy of 32-bit offsets.
  const int* narrow = list.narrow;
  const long long first = narrow ? narrow[i] : list.start[i], last = narrow ? narrow[i + 1] : list.end[i];
  if (last > list.capacity) {
    raise_in(word, 2, param);
    return;
  }
  const long long before = i == 0 ? 0 : narrow ? narrow[i] : list.end[i - 1];
  if (first < 0 || first > last || before > first || (i == 0 && first != 0)) {
    raise_in(word, 10, param);
    return;
  }
  unsigned long long sum = 0;
  for (long long k = first + (threadIdx.x & 31); k < last; k += 32) {
    const long long j = list.column[k];
    if (j < 0 || j >= list.columns) {
      raise_in(word, 0, param);
      continue;
    }
    const auto [x, y, z] = shift(list.triples, list.packed, k).of;
    // Wider integers have been cut to these.
    const int most = 0x7fffffff;
    for (const int s : {x, y, z})
      if (s == most || s == -most - 1) raise_in(word, 4, param);
    if (!list.directed && i == j && x == 0 && y == 0 && z == 0) raise_in(word, 11, param);
    if (list.row_of && list.row_of[i] != list.column_of[j]) raise_in(word, 12, param);
    const unsigned long long a = i, b = j, u = (long long)x, v = (long long)y, w = (long long)z;
    const unsigned long long image = (u + v * 3 + (v << 21) + w * 5 + (w << 42)) * IMAGE;
    sum += mixed(a * FIRST + b * LAST + image) - mixed(b * FIRST + a * LAST - image);
  }
  if (!list.full) return;
  // One addition for the row: those to one place in memory take turns.
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
  if ((threadIdx.x & 31) == 0 && sum) atomicAdd(&list.surplus->sum, sum);
}

// Each item has blocks of its own; or, where the launch clears the words of the call first, warps of its only block.
extern "C" __global__ void __launch_bounds__(512) check(const Items items, int count, const Lists lists, unsigned* word, int cleared) {
  const unsigned unit = cleared ? threadIdx.x / 32 : blockIdx.x, width = cleared ? 32 : blockDim.x;
  for (int n = threadIdx.x; n < cleared; n += blockDim.x) word[n] = 0;
  if (cleared) __syncthreads();
  int n = 0;
  while (n + 1 < count && unit >= items.of[n + 1].first) ++n;
  const Item& item = items.of[n];
  const long long at = (long long)(unit - item.first) * width + threadIdx.x % width;
  const long long step = (long long)item.blocks * width;
  if (item.rule == 10) {
    const List& list = lists.of[item.limit];
    if (at == 0) list.surplus->param = item.param;
    for (long long i = at >> 5; i < list.rows; i += step >> 5) check_row(list, i, word, item.param);
  } else {
    for (long long i = at; i < item.count; i += step) check_element(item, i, word);
  }
}

struct Result {
  void* data;
  long long count;
  int type;
};
struct Results { Result of[16]; };

// The record of the device: the call, then its word. The first one since the last look stays.
__device__ inline bool is_first(unsigned* record, unsigned call) {
  return record[0] == 0 && atomicCAS(record, 0u, call) == 0;
}

// The last list that has pairs from one side only, by its parameter; 0: none has.
__device__ inline unsigned one_sided(const Surplus* surplus, int lists) {
  unsigned param = 0;
  for (int n = 0; n < lists; ++n)
    if (surplus[n].sum) param = unsigned(surplus[n].param);
  return param;
}

extern "C" __global__ void settle(
    const Results results, const unsigned* word, int words, const Surplus* surplus, int lists, unsigned* record,
    unsigned call) {
  const unsigned one_sided_list = one_sided(surplus, lists);
  const bool raised = word[0] != 0 || one_sided_list;
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (raised && at == 0 && blockIdx.y == 0 && is_first(record, call)) {
    for (int n = 0; n < words; ++n) record[1 + n] = word[n];
    if (one_sided_list) {
      record[1] |= 1u << 13;
      record[1 + 1 + 13] = one_sided_list;
    }
  }
  const Result result = results.of[blockIdx.y];
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = at; i < result.count; i += step) {
    if (raised) {
      if (result.type == 8) ((unsigned long long*)result.data)[i] = 0x7ff8000000000000ull;
      else if (result.type == 4) ((unsigned*)result.data)[i] = 0x7fc00000u;
      else ((unsigned short*)result.data)[i] = result.type == 2 ? 0x7e00 : 0x7fc0;
    } else if (sort_of_number(result.data, i, result.type) == 3 && is_first(record, call)) {
      record[1] = 1u << 14;
      for (int n = 1; n < words; ++n) record[1 + n] = 0;
    }
  }
}
