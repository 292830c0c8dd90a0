# Independent check of matching/: ristretto255 of RFC 9496 in plain Python integers, written from the RFC's pseudocode.
import hashlib, json, pathlib
FOLDER=pathlib.Path(__file__).resolve().parent.parent/'matching'
p=2**255-19; D=-121665*pow(121666,-1,p)%p; SM1=pow(2,(p-1)//4,p); L=2**252+27742317777372353535851937790883648493
def neg(x): return x&1
def ab(x): x%=p; return p-x if x&1 else x
def sqrt_ratio(u,v):
    r=u*pow(v,3,p)*pow(u*pow(v,7,p),(p-5)//8,p)%p; c=v*r*r%p
    ok=c==u%p; fl=c==-u%p; fi=c==-u*SM1%p
    if fl or fi: r=r*SM1%p
    return ok or fl, ab(r)
ISQ_AMD=sqrt_ratio(1,(-1-D)%p)[1]; SADM1=sqrt_ratio((-D-1)%p,1)[1] ; OMDS=(1-D*D)%p; DMO=(D-1)**2%p
SQRT_AD_MINUS_ONE=25063068953384623474111414158702152701244531502492656460079210482610430750235
assert SQRT_AD_MINUS_ONE**2%p==(-D-1)%p
def elligator(t):
    r=SM1*t*t%p; u=(r+1)*OMDS%p; v=(-1-r*D)*(r+D)%p
    ok,s=sqrt_ratio(u,v)
    s2=-ab(s*t)%p
    if not ok: s=s2
    c=-1 if ok else r
    N=(c*(r-1)*DMO-v)%p
    w0=2*s*v%p; w1=N*SQRT_AD_MINUS_ONE%p; w2=(1-s*s)%p; w3=(1+s*s)%p
    return (w0*w3%p,w2*w1%p,w1*w3%p,w0*w2%p)
def add(P,Q):
    A=(P[1]-P[0])*(Q[1]-Q[0]);B=(P[1]+P[0])*(Q[1]+Q[0]);C=2*P[3]*Q[3]*D;E=2*P[2]*Q[2]
    e,f,g,h=B-A,E-C,E+C,B+A
    return (e*f%p,g*h%p,f*g%p,e*h%p)
def mul(k,P):
    R=(0,1,1,0)
    for b in bin(k%L)[2:]:
        R=add(R,R)
        if b=='1': R=add(R,P)
    return R
def enc(P):
    x,y,z,t=P; u1=(z+y)*(z-y)%p; u2=x*y%p
    _,inv=sqrt_ratio(1,u1*u2*u2%p); d1=inv*u1%p; d2=inv*u2%p; zi=d1*d2*t%p
    if neg(t*zi%p): x,y,d=y*SM1%p,x*SM1%p,d1*ISQ_AMD%p
    else: d=d2
    if neg(x*zi%p): y=-y%p
    return ab(d*(z-y)).to_bytes(32,'little')
def derive(b):
    m=(1<<255)-1
    return add(*[elligator((int.from_bytes(b[i:i+32],'little')&m)%p) for i in (0,32)])
def xmd(msg,dst,n=64):
    dp=dst+bytes([len(dst)]); b0=hashlib.sha512(bytes(128)+msg+n.to_bytes(2,'big')+b'\0'+dp).digest()
    out=b''; last=bytes(64)
    for i in range(1,-(-n//64)+1):
        last=hashlib.sha512(bytes(x^y for x,y in zip(b0,last))+bytes([i])+dp).digest(); out+=last
    return out[:n]
def dec(b):
    s=int.from_bytes(b,'little')
    if s>=p or neg(s): return None
    ss=s*s%p; u1=(1-ss)%p; u2=(1+ss)%p; u2s=u2*u2%p; v=(-D*u1*u1-u2s)%p
    ok,inv=sqrt_ratio(1,v*u2s%p); dx=inv*u2%p; dy=inv*dx*v%p
    x=ab(2*s*dx); y=u1*dy%p; t=x*y%p
    return None if not ok or neg(t) or y==0 else (x,y,1,t)
DST=b"fedreg-match-v1-ristretto255_XMD:SHA-512_R255MAP_RO_"
f=lambda b:len(b).to_bytes(8,'little')+b
# RFC 9496 A.3, first vector
assert enc(derive(bytes.fromhex("5d1be09e3d0c82fc538112490e35701979d99e06ca3e2b5b54bffe8b4dc772c14d98b696a1bbfb5ca32c436cc61c16563790306c79eaca7705668b47dffe5bb6"))).hex()=="3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46"
a,b=[int.from_bytes(hashlib.sha512(b"fedreg match test "+w).digest(),'little')%L for w in (b"alice",b"bob")]
for line in open(FOLDER/'vectors.jsonl'):
    if line[0]!='{': continue
    v=json.loads(line); parts=[x.encode() for x in v['parts']]
    m=f(b"fedreg match key")+f(bytes([3]*32))+f(b"name")+len(parts).to_bytes(8,'little')+b''.join(map(f,parts))
    assert m.hex()==v['message']
    h=derive(xmd(m,DST)); assert enc(h).hex()==v['element']
    A=mul(a,h); assert enc(A).hex()==v['masked_a']
    AB=mul(b,A); assert enc(AB).hex()==v['doubled']
    t=hashlib.sha256(f(b"fedreg match tag")+f(bytes([9]*16))+f(b"name")+f(enc(AB))).digest()[:16]
    assert t.hex()==v['tag']
r=json.load(open(FOLDER/'rfc.json')); h=bytes.fromhex
B=dec(h(r['multiples_rfc9496_a1'][0]))
assert [enc(mul(k,B)).hex() for k in range(1,16)]==r['multiples_rfc9496_a1']
assert all(dec(h(b)) is None for b in r['refused_rfc9496_a2'])
assert all(enc(derive(h(i))).hex()==o for i,o in r['map_rfc9496_a3'])
assert all(xmd(m.encode(),b"QUUX-V01-CS02-with-expander-SHA512-256",n).hex()==o for m,n,o in r['xmd_sha512_rfc9380_k3'])
o=r['oprf_rfc9497_a1_1']; k,bl=[int.from_bytes(h(o[x]),'little') for x in ('key','blind')]
for i,e,v in o['cases']:
    E=mul(bl,derive(xmd(h(i),b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"))); assert enc(E).hex()==e and enc(mul(k,E)).hex()==v
print("vectors agree with plain Python")
