#!/bin/bash
# Starts each organization's nginx, as docs/how-to/intake.md has it: with its own address, files and sizes,
# and a higher rate, as all clients have one address here.
set -euo pipefail

./inv task rehearsal/task.json | tr '\n' ' ' | grep -o '[0-9]* bytes of an' > rehearsal/sizes
for i in 0 1 2; do
    web=$PWD/rehearsal/web-$i
    mkdir -p $web/2027 $web/partial
    ln -s $web/2027 rehearsal/org-$i/shares
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=Organization $i" \
        -addext "subjectAltName=IP:10.77.1.1$i" -keyout $web/key.pem -out $web/certificate.pem 2> /dev/null
    size=$(sed -n "$((i + 1))s/ .*//p" rehearsal/sizes)
    sed -n '/code-block} nginx/,/^```$/p' docs/how-to/intake.md | sed -e 1d -e '$d' -e "s/1548/$size/" \
        -e 's|rate=60r/m|rate=9000r/s|' -e "s|/srv/uploads|$web|" -e "s|uploads.example.org|10.77.1.1$i|" \
        -e "s|/etc/ssl/certs/uploads.pem|$web/certificate.pem|" \
        -e "s|/etc/ssl/private/uploads.key|$web/key.pem|" > $web/uploads.conf
    cat > $web/nginx.conf <<END
user root; pid $web/pid; error_log $web/errors;
events {}
http {
    fastcgi_temp_path $web/a; proxy_temp_path $web/b; scgi_temp_path $web/c; uwsgi_temp_path $web/d;
    include $web/uploads.conf;
}
END
    ip netns exec org-$i nginx -c $web/nginx.conf
done
cat rehearsal/web-*/certificate.pem > rehearsal/trusted.pem
