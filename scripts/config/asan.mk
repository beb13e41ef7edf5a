# AddressSanitizer, UBSan and LeakSanitizer.
OPT := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
