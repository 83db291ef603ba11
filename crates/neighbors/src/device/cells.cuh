// Points in the cells of their systems.

// Lattice::new, and the number of cells along each axis. Below this |det| unit vectors lie in one plane.
FUNCTION geometry(Search a, const int* ptr, System* systems) {
  const i64 b = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (b >= a.systems || idle(a)) return;
  if (b == 0 && a.wide) *a.wide = 0;
  System s;
  bool open[3];
  double frame[9], unit[9];
  bool finite = true;
  for (int n = 0; n < 9; ++n) {
    const i64 at = (a.cells > 1 ? 9 * b : 0) + n;
    frame[n] = !a.cell ? 0 : a.cell_is_wide ? ((const double*)a.cell)[at] : double(((const float*)a.cell)[at]);
    finite = finite && fabs(frame[n]) <= 1.7976931348623157e308;
  }
  for (int k = 0; k < 3; ++k) {
    const double* row = frame + 3 * k;
    // The fourth bit: axes whose vectors are zero are open.
    const bool zero = (a.axes >> 3 & 1) && row[0] == 0 && row[1] == 0 && row[2] == 0;
    open[k] = a.pbc ? a.pbc[(a.each > 1 ? 3 * b : 0) + k] == 0 : (a.axes >> k & 1) == 0 || zero;
  }
  for (int n = 0; n < 9; ++n) s.rows[n] = open[n / 3] ? 0 : frame[n];
  const int periodic = 3 - open[0] - open[1] - open[2];
  if (periodic == 0) {
    for (int n = 0; n < 9; ++n) frame[n] = n % 4 == 0;
  } else if (periodic == 1) {
    const int k = open[0] ? (open[1] ? 2 : 1) : 0;
    double* second = frame + 3 * ((k + 1) % 3);
    double along[3] = {s.rows[3 * k], s.rows[3 * k + 1], s.rows[3 * k + 2]};
    normalise(along);
    int least = 0;
    for (int c = 1; c < 3; ++c) least = fabs(along[c]) < fabs(along[least]) ? c : least;
    const double other[3] = {double(least == 0), double(least == 1), double(least == 2)};
    cross(along, other, second);
    normalise(second);
    cross(along, second, frame + 3 * ((k + 2) % 3));
  } else if (periodic == 2) {
    const int k = open[0] ? 0 : open[1] ? 1 : 2;
    double one[3], two[3];
    for (int c = 0; c < 3; ++c) {
      one[c] = s.rows[3 * ((k + 1) % 3) + c];
      two[c] = s.rows[3 * ((k + 2) % 3) + c];
    }
    normalise(one);
    normalise(two);
    cross(one, two, frame + 3 * k);
    normalise(frame + 3 * k);
  }
  double lengths[3];
  for (int k = 0; k < 3; ++k) {
    lengths[k] = norm(frame + 3 * k);
    for (int c = 0; c < 3; ++c) unit[3 * k + c] = frame[3 * k + c] / lengths[k];
  }
  double normal[9];
  for (int k = 0; k < 3; ++k) cross(unit + 3 * ((k + 1) % 3), unit + 3 * ((k + 2) % 3), normal + 3 * k);
  const double volume = unit[0] * normal[0] + unit[1] * normal[1] + unit[2] * normal[2];
  // NaN where a vector is zero.
  const bool spans = fabs(volume) > 1e-12;
  s.skew = 1;
  s.lengths = 0;
  for (int k = 0; k < 3; ++k) {
    double column[3];
    for (int c = 0; c < 3; ++c) column[c] = s.inverse[3 * c + k] = normal[3 * k + c] / volume / lengths[k];
    s.heights[k] = open[k] ? 1 : 1 / norm(column);
    s.lengths += open[k] ? 0 : lengths[k];
    s.skew = fmax(s.skew, lengths[k] / s.heights[k]);
    s.cells[k] = open[k] ? 0 : 1;
    // A point on the border of a cell counts to either side; coordinates are below 1 here.
    s.margin[k] = open[k] ? 0 : 1e-9;
  }
  // Offsets that are none have been raised.
  const int begin = ptr[b], end = ptr[b + 1];
  const bool sound = begin >= 0 && begin <= end && end <= a.points;
  s.first = sound ? 2 * u32(begin) : 0;
  s.room = sound ? 2 * u32(end - begin) : 0;
  s.mask = s.room > 0 ? (1u << (31 - __clz(int(s.room)))) - 1 : 0;
  divide(s, a.cell_size);
  const bool few = few_images(s, a.cutoff);
  s.usable = finite && spans && few;
  s.largest = s.unused = 0;
  for (int n = 0; n < 6; ++n) s.ends[n] = 0;
  systems[b] = s;
  if (!finite) {
    raise(a.word, NOT_FINITE, a.of_cell);
  } else if (!spans) {
    raise(a.word, FLAT, a.of_cell);
  } else if (!few) {
    raise(a.word, FAR, CUTOFF);
  }
}

// Counts the points of each bucket, and numbers them in any order, as rows are sorted in the end. If one cannot be placed the
// word is raised, and its bucket unused.
FUNCTION place(Search a, const POSITION* r, const int* of, System* systems, Point* points, u32* keys, u32* numbers,
               int* counts) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= a.points || idle(a)) return;
  const int b = of[i];
  if (b < 0 || b >= a.systems || !systems[b].usable || systems[b].room == 0) return;
  System& s = systems[b];
  Point p;
  p.system = b;
  p.self = int(i);
  i64 cell[3];
  double largest;
  const int wrong = put(s, r + 3 * i, p, cell, largest);
  if (wrong) return raise(a.word, wrong, a.of_positions);
  points[i] = p;
  // Images of partners are up to the cutoff away in boxes, and the wraps of two atoms.
  for (int k = 0; k < 3; ++k)
    if (a.wide && (abs(p.wrap[k]) > 100 || (s.cells[k] != 0 && a.cutoff > 300 * s.heights[k]))) *(volatile i64*)a.wide = 1;
  keys[i] = bucket_of(s, u32(p.cell[0]), u32(p.cell[1]), u32(p.cell[2]));
  numbers[i] = u32(atomicAdd(counts + keys[i], 1));
  // One more than the nearest float is not below, and most points need no atomic operation to find that out.
  const u32 bits = __float_as_uint(float(largest)) + 1;
  if (bits > *(volatile u32*)&s.largest) atomicMax(&s.largest, bits);
}

// Points in the order of their buckets.
FUNCTION gather(Search a, const System* systems, const Point* points, const u32* keys, const u32* numbers, const int* bounds,
                Record* sorted) {
  const i64 n = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (n >= a.points || *a.word != 0 || idle(a)) return;
  const Point i = points[n];
  double at[3];
  in_cell(systems[i.system], i, at);
  sorted[bounds[keys[n]] + numbers[n]] = {{float(at[0]), float(at[1]), float(at[2])}, i.self};
}
