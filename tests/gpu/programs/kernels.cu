// What the tests' programs run on a device. kernels.ptx is made of this, so that no compiler is needed where they run:
//   nvrtc --gpu-architecture=compute_70, then ".version" lowered to 7.0, which every driver of use here reads.

typedef unsigned long long word;

// splitmix64: a word's place and the seed decide every bit of it.
__device__ word mix(word x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

extern "C" __global__ void fill(word *words, word count, word seed) {
    for (word i = blockIdx.x * (word)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (word)blockDim.x)
        words[i] = mix(seed + i);
}

// The sum does not depend on the order of the threads, but on every word and its place.
extern "C" __global__ void digest(const word *words, word count, word *sum) {
    word mine = 0;
    for (word i = blockIdx.x * (word)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (word)blockDim.x)
        mine += mix(words[i] ^ mix(i));
    atomicAdd(sum, mine);
}

// Pure arithmetic: as long as one likes, without memory traffic.
extern "C" __global__ void spin(word *out, word rounds) {
    word x = blockIdx.x * (word)blockDim.x + threadIdx.x;
    for (word i = 0; i < rounds; i++) x = mix(x);
    if (x == 0) *out = x;
}
